"""Points in time as clients write them."""

import pytest

from braid.instants import format_instant, parse_instant

NOW = 1_000_000.0


@pytest.mark.parametrize(
    ("written", "unix_s"),
    [
        ("+10m", NOW + 600),
        ("-10s", NOW - 10),
        ("+250ms", NOW + 0.25),
        ("+1.5s", NOW + 1.5),
        ("+2h", NOW + 7200),
        ("-1d", NOW - 86400),
        (" +1s ", NOW + 1),
        ("+0s", NOW),
        ("2026-05-01T12:00:00Z", 1_777_636_800.0),
        ("2026-05-01T14:00:00+02:00", 1_777_636_800.0),
        ("2026-05-01T12:00:00.250Z", 1_777_636_800.25),
        ("1970-01-01T00:00:00Z", 0.0),
        ("9999-12-31T23:59:59Z", 253_402_300_799.0),
        ("9999-12-31T23:59:59.999Z", 253_402_300_799.999),
        (0, 0.0),
        (1_777_636_800, 1_777_636_800.0),
        (1_777_636_800.5, 1_777_636_800.5),
    ],
)
def test_accepted(written: str | float, unix_s: float) -> None:
    assert parse_instant(written, NOW) == pytest.approx(unix_s, abs=1e-6)


@pytest.mark.parametrize(
    "written", ["", "tomorrow", "10s", "+10", "+s", "+1w", "+-1s", "+1 s", "+1e3s", "12:00", "1e9"]
)
def test_not_a_time(written: str) -> None:
    with pytest.raises(ValueError, match="expected a time such as '2026-05-01T12:00:00Z', Unix seconds, or relative"):
        parse_instant(written, NOW)


@pytest.mark.parametrize("written", ["2026-05-01T12:00:00", "2026-05-01"])
def test_a_time_zone_is_needed(written: str) -> None:
    with pytest.raises(ValueError, match="expected a time zone, for example '2026-05-01T12:00:00Z'"):
        parse_instant(written, NOW)


@pytest.mark.parametrize(
    "written",
    [
        -1,
        -0.001,
        253_402_300_800,
        1e300,
        10**400,
        float("inf"),
        float("-inf"),
        float("nan"),
        "-999999999s",
        "+999999999d",
        "1969-12-31T23:59:59Z",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00",
    ],
    ids=lambda written: str(written)[:20],
)
def test_outside_of_the_years_that_can_be_written(written: str | float) -> None:
    with pytest.raises(ValueError, match="expected a time between the years 1970 and 9999"):
        parse_instant(written, NOW)


@pytest.mark.parametrize(
    ("unix_s", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_777_636_800.25, "2026-05-01T12:00:00.250Z"),
        (253_402_300_799, "9999-12-31T23:59:59.000Z"),
    ],
)
def test_written_in_one_way(unix_s: float, text: str) -> None:
    assert format_instant(unix_s) == text
    assert format_instant(parse_instant(text, NOW)) == text
