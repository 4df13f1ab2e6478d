"""Two scalings, message by message, as they have been: whoever changes the protocol sees in a diff what that means.

`WRITE_TRANSCRIPTS=1 .venv/bin/python -m pytest tests/simulation/test_transcripts.py` writes the transcripts anew.
"""

import difflib
import os
from pathlib import Path

import pytest

from tests.simulation.stories import STORIES

DIRECTORY = Path(__file__).parent / "transcripts"
COMMAND = "WRITE_TRANSCRIPTS=1 .venv/bin/python -m pytest tests/simulation/test_transcripts.py"
SEED = 46


def transcript_of(name: str) -> str:
    simulation = STORIES[name](SEED)
    assert simulation.run() == []
    story = STORIES[name].__doc__
    head = [f"# {name}, seed {SEED}. {story}", f"# Written by: {COMMAND}", "# seconds, then what happens", ""]
    return "\n".join([*head, *simulation.scheduler.transcript, ""])


@pytest.mark.parametrize("name", STORIES)
def test_the_story_is_the_one_that_was_written(name: str) -> None:
    path = DIRECTORY / f"{name}.txt"
    told = transcript_of(name)
    if os.environ.get("WRITE_TRANSCRIPTS"):
        path.write_text(told, encoding="utf-8")
    written = path.read_text(encoding="utf-8")
    difference = "\n".join(
        difflib.unified_diff(written.splitlines(), told.splitlines(), "written", "told", lineterm="")
    )
    assert not difference, f"the story has changed; if that is meant: {COMMAND}\n{difference}"


def test_every_transcript_has_its_story() -> None:
    assert {path.stem for path in DIRECTORY.glob("*.txt")} == set(STORIES)


def test_the_first_story_is_a_whole_scaling() -> None:
    """The order that readers look for is in it."""
    told = (DIRECTORY / "one-matcher-becomes-two.txt").read_text(encoding="utf-8")
    places = [
        told.index(text)
        for text in (
            "epoch 1, copying",
            "AddMatcherState",
            "all is copied",
            "MatcherStateStored",
            "matcher-1 reports copied",
            "epoch 1, moving",
            "StartScale",
            "the last one",
            "matcher-1 reports change-ready",
            "epoch 1, changing",
            "ChangeMatcherOnExitPoint",
            "exitpoint-1 reports exit-point-matcher-updated",
            "epoch 1, flushing",
            "reports scale-end",
            "epoch 1, ending",
            "ScaleEnd",
            "epoch 2, settled",
        )
    ]
    assert places == sorted(places)


def test_the_second_story_goes_back() -> None:
    told = (DIRECTORY / "the-receiver-dies.txt").read_text(encoding="utf-8")
    assert "aborted: matcher-2" in told
    assert "changing" not in told
    assert "ChangeMatcher" not in told
