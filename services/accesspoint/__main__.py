from braid.process import main
from services.accesspoint.shell import AccessPoint

main("accesspoint", AccessPoint)
