"""`python -m coordinator.diagram`: the states of the coordinator as a Mermaid diagram, drawn from its own table."""

from braid.coordination_events import Deposed
from braid.machine import mermaid
from coordinator.core import MACHINE
from coordinator.events import AttemptFailed


def diagram() -> str:
    """Without what leads back from everywhere: `Deposed` to standby, `AttemptFailed` to reading."""
    return mermaid(MACHINE, leave_out=(Deposed, AttemptFailed))


if __name__ == "__main__":
    print(diagram())
