"""Every example in the page that defines zones is true."""

import json
import re
from pathlib import Path

import pytest

from braid import zones
from braid.zones import ZoneError, check_zone, intersect_pairs, intersects, prepare

PAGE = (Path(__file__).parents[2] / "docs" / "zones.md").read_text(encoding="utf-8")


def rows(language: str) -> list[list[str]]:
    found = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert found, f"the page has no {language} block"
    return [[cell.strip() for cell in line.split(" | ")] for line in "".join(found).splitlines()]


@pytest.mark.parametrize(("one", "other", "expected"), rows("zone-examples"))
def test_example(one: str, other: str, expected: str) -> None:
    a, b = check_zone(json.loads(one)), check_zone(json.loads(other))
    assert intersects(a, b) is intersects(b, a) is json.loads(expected)
    prepared = [prepare(a), prepare(b)]
    assert intersect_pairs(prepared, prepared[::-1]).tolist() == [json.loads(expected)] * 2


@pytest.mark.parametrize(("given", "message"), rows("zone-errors"))
def test_error(given: str, message: str) -> None:
    with pytest.raises(ZoneError) as error:
        check_zone(json.loads(given))
    assert str(error.value) == message


@pytest.mark.parametrize(("given", "canonical"), rows("zone-canonical"))
def test_canonical_form(given: str, canonical: str) -> None:
    assert json.dumps(check_zone(json.loads(given))) == canonical
    assert check_zone(json.loads(canonical)) == json.loads(canonical)


@pytest.mark.parametrize(
    ("shown", "name"),
    [
        ("6,371,010 m", "EARTH_RADIUS_M"),
        ("1 mm", "TOLERANCE_M"),
        ("by at most 1 m ", "BOX_DEVIATION_M_MAX"),
        ("10,000,000 m, a", "RADIUS_M_MAX"),
        ("0.0000001 degrees", "BOX_SIDE_DEGREES_MIN"),
        ("at most 1000 |", "POLYGON_VERTICES_MAX"),
        ("at most 10,000,000 m", "POLYGON_EDGE_M_MAX"),
        ("1 m²", "POLYGON_AREA_M2_MIN"),
        ("0.499 of the earth", "POLYGON_SHARE_MAX"),
    ],
)
def test_the_page_shows_the_limits_of_the_code(shown: str, name: str) -> None:
    (line,) = [line for line in re.split(r"\n(?=\||\n)", PAGE) if f"`{name}`" in line]
    assert shown in line.replace("\n", " ") + " "
    number = float(re.search(r"[\d,.]*\d", shown)[0].replace(",", ""))  # type: ignore[index]
    assert getattr(zones, name) == number / (1000 if shown.endswith("mm") else 1)
