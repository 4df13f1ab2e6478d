from braid.process import main
from services.exitpoint.shell import ExitPoint

main("exitpoint", ExitPoint)
