"""Where a follower writes: its checkpoint and its results, which belong together.

Both hold a note with the same id. Results without their checkpoint would be written once more from the beginning, and a
checkpoint without its results does not give them again: so neither is used without the other.
"""

import uuid
from pathlib import Path
from typing import Any

import msgspec

from spark.errors import ExperimentError
from spark.outputs import NOTE, read_note
from spark.requests import Follow

_ANEW = "To begin anew, name two directories that are empty"


class Places:
    def __init__(self, request: Follow) -> None:
        self.checkpoint = request.checkpoint
        self.out = request.out
        self._asked = {"window": request.window, "late": request.late, "source": _source(request)}

    def prepare(self) -> None:
        """Makes both, or finds that they belong together. Raises `ExperimentError`."""
        kept, written = _note_in(self.checkpoint, "--checkpoint"), _note_in(self.out, "--out")
        if kept is None and written is None:
            self._make()
        elif kept is None:
            assert written is not None
            raise ExperimentError(
                f"{self.out} holds windows that were followed with --checkpoint {written.get('checkpoint')}; "
                f"go on with that one. {_ANEW}"
            )
        elif written is None and kept.get("out") == str(self.out.absolute()):
            # They were removed, or whoever began was killed before he had noted it there, too.
            raise ExperimentError(
                f"the windows of --checkpoint {self.checkpoint} are gone: {self.out} holds none, and a checkpoint does "
                f"not give them again. Remove {self.checkpoint} or name another --checkpoint, and everything that the "
                "source still has is followed anew"
            )
        elif written is None or written["id"] != kept["id"]:
            where = f"the windows of --checkpoint {self.checkpoint} are in {kept.get('out')}"
            raise ExperimentError(f"{where}; go on with that --out. {_ANEW}")
        else:
            self._compare(kept)

    def table(self, name: str, batch: int) -> str:
        """One directory for each batch: a batch that is done again writes over what it has written."""
        return str(self.out / name / f"batch={batch}")

    def _make(self) -> None:
        note = {"made": "follow", "id": uuid.uuid4().hex, **self._asked}
        places = {"checkpoint": str(self.checkpoint.absolute()), "out": str(self.out.absolute())}
        try:
            for directory in (self.checkpoint, self.out):
                directory.mkdir(parents=True, exist_ok=True)
                (directory / NOTE).write_bytes(msgspec.json.format(msgspec.json.encode({**note, **places})))
        except OSError as error:
            raise ExperimentError(f"cannot write to {directory}: {error.strerror}") from None

    def _compare(self, kept: dict[str, Any]) -> None:
        for name, asked in self._asked.items():
            if kept.get(name) != asked:
                raise ExperimentError(
                    f"--checkpoint {self.checkpoint} was begun with {name} {kept.get(name)}, not {asked}. {_ANEW}"
                )


def _note_in(directory: Path, option: str) -> dict[str, Any] | None:
    """None where there is nothing yet."""
    if not directory.exists() or (directory.is_dir() and not any(directory.iterdir())):
        return None
    note = read_note(directory) if directory.is_dir() else None
    if note is None or note.get("made") != "follow" or "id" not in note:
        raise ExperimentError(f"{option} {directory} was not made by this command; name an empty directory")
    return note


def _source(request: Follow) -> str:
    if request.source == "files":
        return str(request.directory.absolute())
    return f"{request.topic} at {request.bootstrap}"
