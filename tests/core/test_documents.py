"""The documents say what the code says: settings, metrics, messages, calls, files, functions, commands, links."""

import ast
import json
import re
from functools import cache
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
import typer.main
from prometheus_client.metrics import MetricWrapperBase

from braid import messages, metrics
from braid.cli.app import app
from braid.codec import HEARTBEAT, PROTOCOL_VERSION, FrameReader, Hello, decode_messages, encode_frames
from braid.config import Settings, flatten
from braid.messages import AnyMessage
from braid.selector import hash64
from services.connpoint.http import connection, frames
from services.connpoint.http.app import create_app
from tests.service.fake_door import FakeDoor

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md")])
SOURCES = [file for top in ("braid", "services", "coordinator", "spark") for file in sorted((ROOT / top).rglob("*.py"))]
FENCE = re.compile(r"^```(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@cache
def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@cache
def source_text() -> str:
    return "\n".join(file.read_text(encoding="utf-8") for file in SOURCES)


def rows(text: str) -> list[list[str]]:
    """The cells of every table row."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip()[1:-1].split("|")] for line in lines]


def section(document: str, heading: str) -> str:
    """From a heading to the next one."""
    found = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#|\Z)", text_of(document), re.MULTILINE | re.DOTALL)
    assert found, f"{document} has no heading '{heading}'"
    return found[1]


def shell_lines(document: str) -> list[str]:
    """Every command of the code blocks, and every inline code span."""
    text = text_of(document)
    blocks = "\n".join(body for _, body in FENCE.findall(text))
    return [*re.findall(r"^(?:\$ )?(\S.*)$", blocks, re.MULTILINE), *re.findall(r"`([^`\n]+)`", FENCE.sub("", text))]


# Operations


def test_every_setting_stands_in_operations_with_its_default() -> None:
    listed = {row[0].strip("`"): row[1].strip("`") for row in rows(text_of("docs/operations.md")) if len(row) > 3}
    for key, value in flatten(Settings()).items():
        shown = json.dumps(value) if not isinstance(value, str) or not value else value
        assert listed.get(key) == shown, f"{key} is {shown}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_setting_that_is_named_exists(document: Path) -> None:
    sections = "|".join(Settings.model_fields)
    known = flatten(Settings())
    for name in re.findall(rf"`((?:{sections})\.[a-z_]+)(?: = [^`]*)?`", document.read_text(encoding="utf-8")):
        assert name in known or name == "cluster.json", name


def test_every_metric_stands_in_operations_with_type_and_labels() -> None:
    listed = {
        row[0].strip("`"): row[1:3] for row in rows(text_of("docs/operations.md")) if row[0].startswith("`braid_")
    }
    expected = {}
    for collector in vars(metrics).values():
        if isinstance(collector, MetricWrapperBase):
            (described,) = collector.describe()
            name = described.name + ("_total" if described.type == "counter" else "")
            labels = ", ".join(f"`{label}`" for label in collector._labelnames)
            expected[name] = [described.type, labels]
    assert listed == expected


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_metric_that_is_named_exists(document: Path) -> None:
    for name in re.findall(r"`(braid_[a-z_]+)`", document.read_text(encoding="utf-8")):
        assert f'"{name}"' in text_of("braid/metrics.py"), name


def test_every_log_event_that_is_named_exists() -> None:
    events = re.findall(
        r"^\| (`.*?`) \| (?:info|warning|error) \|", section("docs/operations.md", "Logs"), re.MULTILINE
    )
    assert len(events) > 10
    for event in re.findall(r"`([^`]+)`", " ".join(events)):
        assert f'"{event}"' in source_text(), event


# Protocol


def test_every_message_stands_in_protocol_with_tag_way_and_handler() -> None:
    assert messages.__doc__ is not None
    handled = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in messages.__doc__.splitlines() if "→" in line
    ]
    tags = {kind.__name__: str(kind.__struct_config__.tag) for kind in get_args(AnyMessage)}
    assert {row[0] for row in handled} == set(tags)
    table = rows(text_of("docs/protocol.md"))
    for name, way, handler in handled:
        assert [name, tags[name], way, handler] in table
        assert f"def {handler.strip('`')}(" in source_text(), handler


@pytest.mark.parametrize("kind", get_args(AnyMessage), ids=lambda kind: str(kind.__name__))
def test_every_field_of_a_message_stands_in_its_section(kind: type[msgspec.Struct]) -> None:
    described = section("docs/protocol.md", kind.__name__)
    named = re.findall(r"`(\w+)`", " ".join(line.split("|")[1] for line in described.splitlines() if "|" in line))
    assert named == list(kind.__struct_fields__)


def test_the_handshake_stands_in_protocol() -> None:
    described = section("docs/protocol.md", "Handshake")
    assert re.findall(r"^\| `(\w+)`", described, re.MULTILINE) == list(Hello.__struct_fields__)


def test_the_hex_example_decodes() -> None:
    (example,) = [body for language, body in FENCE.findall(text_of("docs/protocol.md")) if language == "frame-hex"]
    frame = b"".join(bytes.fromhex(re.split(r" {3,}", line)[0]) for line in example.splitlines())
    (body,) = FrameReader(1000).feed(frame)
    (message,) = decode_messages(body)
    assert message == messages.Publications(
        epoch=1,
        origin="connpoint-1.1a1e2452db0",
        sequence=7,
        previous=6,
        watermark=5,
        publisher=hash64("sensor-1"),
        published_s=1_700_000_000.5,
        contents=[b'{"id":"a","attributes":{"value":41}}'],
    )
    assert encode_frames([message], 1000) == [frame]
    assert f"`{HEARTBEAT.hex(' ')}`" in text_of("docs/protocol.md")


def test_every_websocket_frame_and_close_code_stands_in_protocol() -> None:
    described = section("docs/protocol.md", "WebSocket")
    tags = re.findall(r'tag="(\w+)"', text_of("services/connpoint/http/frames.py"))
    assert set(frames.OPS) < set(tags)
    for op in [*tags, "notify"]:
        assert f'"op":"{op}"' in described, op
    codes = {int(code) for code in re.findall(r"^\| (\d{4}) \|", described, re.MULTILINE)}
    assert codes == {*connection._CLOSE_CODES.values(), 1009, 1011}


def test_every_reason_of_a_closed_stream_stands_in_protocol() -> None:
    described = section("docs/protocol.md", "Server-sent events")
    for reason in connection._CLOSE_CODES:
        assert f"`{reason}`" in described


def test_every_call_stands_in_protocol_with_its_statuses() -> None:
    described = {}
    for call, *cells in rows(section("docs/protocol.md", "REST")):
        if "/" in call:
            said = f"{cells[0].split('`')[0]} {cells[1]}"
            described[call.strip("`")] = set(re.findall(r"\b\d{3}\b", said))
    served = {}
    for path, operations in create_app(FakeDoor()).openapi()["paths"].items():
        for method, operation in operations.items():
            statuses = set(operation["responses"])
            asked = [parameter for parameter in operation.get("parameters", ()) if parameter["in"] != "path"]
            if "{id}" in path and not asked and "requestBody" not in operation:
                statuses.discard("422")  # FastAPI says so of every parameter; a string is never refused
            served[f"{method.upper()} {path}"] = statuses
    assert described == served


def test_every_problem_kind_stands_in_protocol() -> None:
    described = set(re.findall(r"^\| `([a-z-]+)` \|", section("docs/protocol.md", "Problems"), re.MULTILINE))
    raised = set()
    for file in SOURCES:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Problem":
                kind = node.args[1] if len(node.args) > 1 else None
                if isinstance(kind, ast.Constant):
                    raised.add(kind.value)
    assert described == raised


def test_every_limit_of_matching_has_its_name_in_the_code() -> None:
    limits = rows(section("docs/matching.md", "Limits"))[1:]
    assert len(limits) > 10
    for _, where, _ in limits:
        (file,) = re.findall(r"in `(braid/[\w/]+\.py)`", where)
        for name in re.findall(r"`([A-Z_]+)`", where):
            assert re.search(rf"^(?:\w+, )*{name}\b.* = ", text_of(file), re.MULTILINE), f"{file}: {name}"


# Files, functions, links, commands


@cache
def names_in(file: Path) -> frozenset[str]:
    """Functions, classes and `Class.method` of a file."""
    found = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            inner = [part for part in node.body if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)]
            found.update(f"{node.name}.{part.name}" for part in inner)
    return frozenset(found)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_file_and_function_that_is_named_exists(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    for path, name in re.findall(
        r"`((?:braid|services|coordinator|tests|benchmarks)/[\w/]*(?:\.py)?)(?::([\w.]+))?`", text
    ):
        assert (ROOT / path).exists(), path
        if name:
            assert name in names_in(ROOT / path), f"{path}:{name}"


def test_the_path_table_names_the_handlers_of_its_files() -> None:
    hops = [row for row in rows(text_of("README.md")) if row[0].isdecimal()]
    assert [row[0] for row in hops] == ["1", "2", "3", "4", "5", "6"]
    for _, handlers, _, files in hops:
        shown = re.findall(r"`(\w+)`", handlers)
        assert shown == re.findall(r"\.py:\w+\.(\w+)`", files)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_relative_link_resolves(document: Path) -> None:
    text = FENCE.sub("", document.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        linked = (document.parent / path).resolve() if path else document
        assert linked.is_file(), target
        if anchor:
            assert anchor in anchors_of(linked), target


def anchors_of(document: Path) -> set[str]:
    """As GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", document.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_command_and_option_that_is_named_exists(document: Path) -> None:
    commands: dict[str, Any] = vars(typer.main.get_command(app))["commands"]
    for line in shell_lines(str(document.relative_to(ROOT))):
        called = re.match(r"(?:\S*/)?(?:dev )?braid (?!--)([a-z]+)\b(.*)", line)
        if called is None:
            continue
        assert called[1] in commands, line
        command = commands[called[1]]
        if (below := re.match(r" ([a-z]+(?:-[a-z]+)*)\b", called[2])) and hasattr(command, "commands"):
            assert below[1] in command.commands, line
            command = command.commands[below[1]]
        known = {option for parameter in command.params for option in parameter.opts}
        assert set(re.findall(r"(?<=\s)--[a-z-]+", called[2])) <= known, line


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_dev_command_that_is_named_exists(document: Path) -> None:
    known = set(re.findall(r"^  ([a-z]+)\)", text_of("dev"), re.MULTILINE))
    assert {"up", "test"} <= known
    for line in shell_lines(str(document.relative_to(ROOT))):
        if called := re.match(r"\./dev ([a-z]+)", line):
            assert called[1] in known, line


def test_the_readme_names_every_document() -> None:
    for document in (ROOT / "docs").glob("*.md"):
        assert f"](docs/{document.name})" in text_of("README.md"), document.name


def test_the_changelog_names_the_version_of_the_protocol() -> None:
    """Whoever upgrades slice by slice goes by it."""
    named = re.findall(r"Slices speak version (\d+) of the protocol", text_of("CHANGELOG.md"))
    assert named[:1] == [str(PROTOCOL_VERSION)]
