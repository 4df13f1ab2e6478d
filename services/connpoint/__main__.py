from braid.process import main
from services.connpoint.shell import ConnPoint

main("connpoint", ConnPoint)
