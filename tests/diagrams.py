"""`python -m tests.diagrams`: the states of everybody who takes part in a scaling, drawn from their own tables.

With `--write` the diagrams are written into docs/repartitioning.md, each between the two marks that carry its name.
"""

import sys
from pathlib import Path

from braid.coordination_events import Deposed
from braid.machine import mermaid
from braid.phases import Settled
from coordinator import core as coordinator
from coordinator.events import AttemptFailed
from services.accesspoint import scaling as accesspoint
from services.exitpoint import scaling as exitpoint
from services.matcher import scaling as matcher

PAGE = Path(__file__).parents[1] / "docs" / "repartitioning.md"


def diagrams() -> dict[str, str]:
    """Without what leads back from everywhere, which the page says in words."""
    return {
        "coordinator": mermaid(coordinator.MACHINE, leave_out=(Deposed, AttemptFailed)),
        "accesspoint": mermaid(accesspoint.MACHINE, leave_out=(Settled,)),
        "matcher": mermaid(matcher.MACHINE, leave_out=(Settled,)),
        "exitpoint": mermaid(exitpoint.MACHINE, leave_out=(Settled,)),
    }


def with_diagrams(page: str) -> str:
    """The page with each diagram as it is drawn today."""
    for name, diagram in diagrams().items():
        begin, end = f"<!-- diagram: {name} -->\n", "<!-- end of diagram -->"
        before, mark, rest = page.partition(begin)
        if not mark or end not in rest:
            raise ValueError(f"the page needs the marks {begin.strip()} and {end}")
        page = f"{before}{begin}```mermaid\n{diagram}\n```\n{rest[rest.index(end) :]}"
    return page


def main() -> None:
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(with_diagrams(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
        return
    for name, diagram in diagrams().items():
        print(f"{name}\n\n{diagram}\n")


if __name__ == "__main__":
    main()
