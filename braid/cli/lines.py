"""Publications on the terminal: one line each."""

from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

    from braid.client import Publication

_COLOURS = {bool: "magenta", int: "cyan", float: "cyan", str: "green"}


def publication_line(publication: "Publication", when: datetime, today: datetime) -> "Text":
    """Time of day, also the day when it is another one, id, attributes by type, what else there is."""
    import msgspec
    from rich.text import Text

    time_of_day = when.strftime("%H:%M:%S.%f")[:-3]
    line = Text(time_of_day if when.date() == today.date() else f"{when.date()} {time_of_day}", "dim")
    line.append(f"  {publication.id}", "bold")
    for name, value in publication.attributes.items():
        shown = msgspec.json.encode(value).decode()
        line.append(f"  {name}", "dim").append("=").append(shown, _COLOURS[type(value)])
    for part in ("topic", "text", "object", "zone", "expires", "data"):
        value = getattr(publication, part)
        if value:
            line.append(f"  {part}: ", "dim").append(msgspec.json.encode(value).decode())
    return line
