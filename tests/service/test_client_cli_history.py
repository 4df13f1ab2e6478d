"""`braid history` before a fake door."""

import json
import time
from datetime import datetime
from typing import Any

from braid.cli.lines import publication_line
from braid.client import Publication
from tests.service.cli_runner import braid
from tests.service.fake_door import Served, serving

CIRCLE = "40.4168,-3.7038,5000"


def keep(served: Served, age_s: float, **content: Any) -> None:
    served.door.kept.add(json.dumps(content).encode(), time.time() - age_s)


def url_of(served: Served) -> str:
    return f"http://127.0.0.1:{served.port}"


async def shown(served: Served, *arguments: str) -> list[str]:
    """The ids of the lines."""
    done = await braid(url_of(served), "history", *arguments)
    assert done.exit_code == 0, done.stderr
    return [line.split("  ")[1] for line in done.stdout.splitlines()]


async def test_history_shows_what_matched_as_sub_does() -> None:
    async with serving() as served:
        keep(served, 20, id="a", attributes={"city": "Madrid", "value": 41.5}, topic="air/madrid", data={"b": 1})
        keep(served, 10, id="b", attributes={"value": 12})
        done = await braid(url_of(served), "history")
        assert (done.exit_code, done.stderr) == (0, "")
        assert [line.partition("  ")[2] for line in done.stdout.splitlines()] == [
            'a  city="Madrid"  value=41.5  topic: "air/madrid"  data: {"b":1}',
            "b  value=12",
        ]


async def test_every_option_is_a_condition() -> None:
    zone = {"type": "point", "lat": 40.42, "lon": -3.7}
    async with serving() as served:
        keep(served, 300, id="a", topic="rivers/jarama", attributes={"level": 1}, text="It floods", zone=zone)
        keep(served, 200, id="b", topic="rivers", attributes={"level": 3}, text="All quiet")
        keep(served, 100, id="c", topic="air/madrid", attributes={"level": 5}, text="Floods of rain", zone=zone)
        assert await shown(served) == ["a", "b", "c"]
        assert await shown(served, "level > 2") == ["b", "c"]
        assert await shown(served, "--word", "flooding", "--word", "rain") == ["c"]
        assert await shown(served, "--topic", "rivers/jarama") == ["a", "b"]
        assert await shown(served, "--topic", "rivers/jarama", "--topic-scope", "self") == ["a"]
        assert await shown(served, "--circle", CIRCLE) == ["a", "c"]
        assert await shown(served, "--box", "40,-4,41,-3") == ["a", "c"]
        assert await shown(served, "--zone", json.dumps({"type": "Point", "coordinates": [-3.7, 40.42]})) == ["a", "c"]
        assert await shown(served, "--from", "-250s", "--until", "-150s") == ["b"]
        assert await shown(served, "--from", str(time.time() - 150)) == ["c"]


async def test_the_newest_are_shown_when_there_are_more() -> None:
    async with serving() as served:
        for number in range(5):
            keep(served, 50 - number, id=str(number))
        done = await braid(url_of(served), "history", "--limit", "2")
        assert [line.split("  ")[1] for line in done.stdout.splitlines()] == ["3", "4"]
        assert done.stderr == "the newest 2; there may be more, which --limit or --until show\n"
        done = await braid(url_of(served), "history", "n = 1")
        assert (done.exit_code, done.stdout, done.stderr) == (0, "", "nothing that is kept matches\n")


async def test_history_as_json() -> None:
    async with serving() as served:
        keep(served, 20, id="a", data=[1, None])
        keep(served, 10, id="b")
        done = await braid(url_of(served), "history", "--json", "--limit", "2")
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        assert [line["publication"] for line in lines] == [{"id": "a", "data": [1, None]}, {"id": "b"}]
        for line, age_s in zip(lines, (20, 10), strict=True):
            assert abs(time.time() - age_s - datetime.fromisoformat(line["published"]).timestamp()) < 5
        assert done.stderr == ""


async def test_a_filter_error_is_shown_with_its_caret() -> None:
    async with serving() as served:
        done = await braid(url_of(served), "history", "value >")
        assert (done.exit_code, done.stdout) == (1, "")
        lines = done.stderr.splitlines()
        assert lines[:2] == ["error: A field is not valid", "  field  where"]
        assert lines[-2:] == ["    value >", "           ^"]
        done = await braid(url_of(served), "history", "--topic-scope", "self")
        assert (done.exit_code, "--topic-scope needs the --topic" in done.stderr) == (2, True)
        done = await braid(url_of(served), "history", "--limit", "1001")
        assert done.exit_code == 2


async def test_without_a_cluster_it_says_what_to_do() -> None:
    done = await braid("http://127.0.0.1:9", "history")
    assert (done.exit_code, "Is the cluster up?" in done.stderr) == (1, True)


def test_another_day_is_shown_with_its_date() -> None:
    today = datetime(2026, 5, 2, 0, 0, 1)
    yesterday = datetime(2026, 5, 1, 23, 59, 59, 999_000)
    publication = Publication(id="a")
    assert publication_line(publication, today, today).plain == "00:00:01.000  a"
    assert publication_line(publication, yesterday, today).plain == "2026-05-01 23:59:59.999  a"
