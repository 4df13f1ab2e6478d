"""What `braid pub` reads, and how the command line shows things. Pure: nothing is connected."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from braid.cli.inputs import read_all, read_stream, without_blocking
from braid.cli.running import Failure
from braid.cli.status import up_time
from braid.cli.sub import line_of
from braid.cli.trace import bar, duration, table_of
from braid.client import Notification, Publication, Trace, TraceHop
from braid.client.ids import make_id

NOW_NS = 1_767_225_600_000_000_000


class Trickle:
    """Input that arrives in the given pieces."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = list(pieces)

    def read(self, size: int = -1, /) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""


def batches(*pieces: bytes) -> list[list[dict[str, Any]]]:
    return list(read_stream(Trickle(*pieces), "input"))


def test_ndjson_is_read_as_it_arrives() -> None:
    assert batches(b'{"id":"a"}\n{"id":"b"}\n{"i', b'd":"c"}\n', b"\n", b'{"id":"d"}') == [
        [{"id": "a"}, {"id": "b"}],
        [{"id": "c"}],
        [{"id": "d"}],
    ]


@pytest.mark.parametrize(
    "text",
    [b'{"id":"a"}', b'\n\n {\n  "id":\n "a"\n}\n', b'[{"id":"a"}]', b'[\n{"id":"a"}\n]\n', b'{"id":"a"}\n'],
)
def test_one_document_in_any_layout(text: bytes) -> None:
    assert batches(text) == [[{"id": "a"}]]
    assert batches(*(bytes([byte]) for byte in text)) == [[{"id": "a"}]]


def test_an_array_over_many_pieces() -> None:
    assert batches(b'[{"id":"a"},\n', b'{"id":', b'"b"}]') == [[{"id": "a"}, {"id": "b"}]]


def test_no_input_is_no_publication() -> None:
    assert batches() == batches(b"\n", b"  \n") == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b'{"id":"a"}\n{oops}\n', "input, line 2: not valid JSON"),
        (b'{"id":"a"}\n[1]\n', "input, line 2, element 1: expected a JSON object"),
        (b'{"id":"a"}\n[]\n', "input, line 2: expected one JSON object on each line"),
        (b"{oops}\nmore", "input, line 1: not valid JSON"),
        (b"[1, 2]", "input, element 1: expected a JSON object"),
        (b"hello", "input: not valid JSON"),
    ],
)
def test_bad_input_says_where_it_is_bad(text: bytes, message: str) -> None:
    with pytest.raises(Failure, match=message):
        batches(text)


def test_arguments_and_files(tmp_path: Path) -> None:
    file = tmp_path / "p.ndjson"
    file.write_text('{"id":"c"}\n{"id":"d"}\n')
    read = [document["id"] for batch in read_all(['{"id":"a"}', '[{"id":"b"}]', f"@{file}"]) for document in batch]
    assert read == ["a", "b", "c", "d"]
    with pytest.raises(Failure, match=r"cannot read .*: No such file"):
        list(read_all([f"@{tmp_path}/none"]))


async def test_reading_ahead_is_in_order_and_passes_errors_on() -> None:
    def source() -> Iterator[list[dict[str, Any]]]:
        for number in range(100):
            yield [{"n": number}]
        raise Failure("the disk is gone")

    read = []

    async def read_everything() -> None:
        async for batch in without_blocking(source()):
            read.extend(batch)

    with pytest.raises(Failure, match="the disk is gone"):
        await read_everything()
    assert read == [{"n": number} for number in range(100)]


def test_a_notification_is_one_line_with_its_latency() -> None:
    publication = Publication(
        id=make_id(NOW_NS - 2_500_000, 0),
        attributes={"city": "Madrid", "value": 41.5, "ok": True},
        data={"station": 4},
    )
    line = line_of(Notification(subscriptions=["s1"], publication=publication), NOW_NS)
    assert line.plain.partition("  ")[2] == (
        f'{publication.id}  city="Madrid"  value=41.5  ok=true  data: {{"station":4}}  2.5 ms'
    )
    colours = {line.plain[span.start : span.end]: span.style for span in line.spans}
    assert (colours['"Madrid"'], colours["41.5"], colours["true"]) == ("green", "cyan", "magenta")
    given = Notification(subscriptions=["s1"], publication=Publication(id="reading-1"))
    assert line_of(given, NOW_NS).plain.endswith("reading-1")


def test_a_trace_shows_where_the_time_went() -> None:
    us = 1_000
    hops = [
        TraceHop(slice="connpoint-1", arrived_ns=NOW_NS, left_ns=NOW_NS + 100 * us),
        TraceHop(slice="accesspoint-1", arrived_ns=NOW_NS + 150 * us, left_ns=NOW_NS + 170 * us),
        TraceHop(slice="matcher-2", arrived_ns=NOW_NS + 200 * us, left_ns=NOW_NS + 260 * us),
        TraceHop(slice="matcher-1", arrived_ns=NOW_NS + 190 * us, left_ns=NOW_NS + 240 * us),
        TraceHop(slice="exitpoint-1", arrived_ns=NOW_NS + 300 * us, left_ns=NOW_NS + 310 * us),
        TraceHop(slice="connpoint-1", arrived_ns=NOW_NS + 350 * us, left_ns=NOW_NS + 1_400 * us),
    ]
    table = table_of(Trace(id="x", complete=True, hops=hops))
    cells = [list(column.cells) for column in table.columns]
    assert [str(cell) for cell in cells[0]][2] == "[bold]matcher-1[/]"
    assert (cells[1][0], cells[1][-1]) == ("accepted, logged", "delivered")
    assert cells[2] == ["", "50 µs", "20 µs", "30 µs", "40 µs", "40 µs"]
    assert cells[3] == ["100 µs", "20 µs", "50 µs", "60 µs", "10 µs", "1.1 ms"]
    assert table.caption == "1.4 ms from end to end"


def test_small_things() -> None:
    assert bar(0, 100, 100) == "━" * 20
    assert bar(100, 100, 100) == " " * 19 + "━"
    assert bar(0, 0, 0) == "━"
    assert [duration(ns) for ns in (900, 12_345_678, 2_500_000_000)] == ["1 µs", "12.3 ms", "2.50 s"]
    assert [up_time(seconds) for seconds in (0.4, 65, 3_600, 266_700)] == ["0s", "1m 5s", "1h 0s", "3d 2h"]
