from braid.slice import main
from services.accesspoint.shell import AccessPoint

main("accesspoint", AccessPoint)
