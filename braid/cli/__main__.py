"""`python -m braid.cli` is the same as `braid`."""

from braid.cli import main

main()
