"""Zones as options of a command: short forms of circles and boxes, JSON for all others."""

import math
from pathlib import Path
from typing import Any

import msgspec
import typer

_FORMS = {
    "circle": (("lat", "lon", "radius_m"), "40.4168,-3.7038,500"),
    "box": (("south", "west", "north", "east"), "40.3,-3.9,40.6,-3.5"),
}
_POINT = '{"type": "point", "lat": 40.4, "lon": -3.7}'


def read_circle(text: str) -> dict[str, Any]:
    return _read_numbers("circle", text)


def read_box(text: str) -> dict[str, Any]:
    return _read_numbers("box", text)


def read_zone(text: str) -> dict[str, Any]:
    """JSON, or @file. Whether it is a zone is for the cluster to say."""
    source = text
    if text.startswith("@"):
        try:
            source = Path(text[1:]).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise typer.BadParameter(f"cannot read {text[1:]}: {getattr(error, 'strerror', None) or error}") from None
    try:
        zone = msgspec.json.decode(source)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise typer.BadParameter(f"not valid JSON: {error}; expected a zone such as {_POINT}, or @file") from None
    if not isinstance(zone, dict):
        raise typer.BadParameter(f"expected a JSON object such as {_POINT}")
    return zone


def one_zone(**given: dict[str, Any] | None) -> dict[str, Any] | None:
    """A subscription has one zone, so at most one of these options."""
    named = [name for name, zone in given.items() if zone is not None]
    if len(named) > 1:
        options = " and ".join(f"--{name}" for name in named)
        raise typer.BadParameter(f"{options} exclude each other, because a subscription has one zone; give one of them")
    return given[named[0]] if named else None


def _read_numbers(kind: str, text: str) -> dict[str, Any]:
    names, example = _FORMS[kind]
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != len(names) or not all(map(math.isfinite, numbers)):
        form = ",".join(names).upper()
        raise typer.BadParameter(f"expected {len(names)} numbers {form} such as {example}, not {text!r}")
    return {"type": kind, **dict(zip(names, numbers, strict=True))}
