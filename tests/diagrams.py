"""`python -m tests.diagrams`: the states of whatever is driven by a table, drawn from that table.

With `--write` the diagrams are written into their pages, each between the two marks that carry its name.
"""

import sys
from pathlib import Path

from braid.coordination_events import Deposed
from braid.machine import mermaid
from braid.phases import Settled
from coordinator import core as coordinator
from coordinator.events import AttemptFailed
from services.accesspoint import scaling as accesspoint
from services.connpoint.webhooks import endpoint
from services.exitpoint import scaling as exitpoint
from services.matcher import scaling as matcher

DOCS = Path(__file__).parents[1] / "docs"


def diagrams() -> dict[str, dict[str, str]]:
    """By page. Without what leads back from everywhere, which the page says in words."""
    return {
        "repartitioning.md": {
            "coordinator": mermaid(coordinator.MACHINE, leave_out=(Deposed, AttemptFailed)),
            "accesspoint": mermaid(accesspoint.MACHINE, leave_out=(Settled,)),
            "matcher": mermaid(matcher.MACHINE, leave_out=(Settled,)),
            "exitpoint": mermaid(exitpoint.MACHINE, leave_out=(Settled,)),
        },
        "webhooks.md": {"endpoint": mermaid(endpoint.MACHINE)},
    }


def with_diagrams(text: str, drawn: dict[str, str]) -> str:
    """The text of a page with each diagram as it is drawn today."""
    for name, diagram in drawn.items():
        begin, end = f"<!-- diagram: {name} -->\n", "<!-- end of diagram -->"
        before, mark, rest = text.partition(begin)
        if not mark or end not in rest:
            raise ValueError(f"the page needs the marks {begin.strip()} and {end}")
        text = f"{before}{begin}```mermaid\n{diagram}\n```\n{rest[rest.index(end) :]}"
    return text


def main() -> None:
    for page, drawn in diagrams().items():
        if sys.argv[1:] == ["--write"]:
            path = DOCS / page
            path.write_text(with_diagrams(path.read_text(encoding="utf-8"), drawn), encoding="utf-8")
            continue
        for name, diagram in drawn.items():
            print(f"{name}\n\n{diagram}\n")


if __name__ == "__main__":
    main()
