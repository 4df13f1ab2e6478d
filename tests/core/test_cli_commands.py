"""The commands that need no cluster, what they import, and what they say when something is wrong."""

import json
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
from typer.testing import CliRunner

from braid.cli.app import app
from braid.cli.scale import numbers_of
from braid.cli.sub import Scope
from braid.topics import SCOPES
from spark.requests import decode_request

COMMANDS = (
    "up",
    "down",
    "status",
    "scale",
    "replace",
    "sub",
    "pub",
    "history",
    "trace",
    "explain",
    "config",
    "experiment",
    "webhook",
)
HEAVY = ("pyspark", "fastapi", "kazoo", "uvicorn", "plyvel", "numpy")
NOWHERE = "http://127.0.0.1:9"  # the discard port, where nothing listens

runner = CliRunner(env={"BRAID_URL": None, "BRAID_CONFIG": None, "COLUMNS": "200", "NO_COLOR": "1"})


def test_version_and_help() -> None:
    assert runner.invoke(app, ["--version"]).stdout.startswith("braid 0.")
    overview = runner.invoke(app, ["--help"]).stdout
    assert all(command in overview for command in COMMANDS)
    for command in COMMANDS:
        shown = runner.invoke(app, [command, "--help"])
        assert shown.exit_code == 0
        assert "Examples" in shown.stdout
        assert f"braid {command}" in shown.stdout.partition("Examples")[2]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["experiment", "--help"],
        ["experiment", "workload", "--help"],
        ["--url", NOWHERE, "pub", '{"attributes": {}}'],
        ["--url", NOWHERE, "scale", "matcher", "3"],
        ["--url", NOWHERE, "webhook", "list"],
        ["--url", NOWHERE, "sub", "n = 1", "--word", "rain", "--topic", "a/#", "--circle", "1,2,3"],
    ],
)
def test_starting_is_light(arguments: list[str]) -> None:
    program = (
        "import sys\n"
        "from braid.cli import main\n"
        f"sys.argv = ['braid', *{arguments!r}]\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        f"print('loaded', [name for name in {HEAVY!r} if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.splitlines()[-1] == "loaded []"


@pytest.mark.parametrize(
    "command",
    [
        ["status"],
        ["pub", "{}"],
        ["sub"],
        ["trace", "{}"],
        ["explain", "{}"],
        ["scale", "matcher", "3"],
        ["scale", "--routing", "anchored"],
        ["scale", "--watch", "scaling-1"],
        ["replace", "matcher-1"],
        ["sub", "--webhook", "https://example.com/"],
        ["webhook", "list"],
        ["webhook", "show", "a-1"],
        ["webhook", "replay", "a-1"],
    ],
)
def test_without_a_cluster_it_says_what_to_do(command: list[str]) -> None:
    done = runner.invoke(app, ["--url", NOWHERE, *command])
    assert done.exit_code == 1
    assert "Is the cluster up? Start it with ./dev up" in done.stderr
    assert "Traceback" not in done.output


def test_bad_arguments_are_explained() -> None:
    assert "nothing to publish" in runner.invoke(app, ["pub"]).stderr
    done = runner.invoke(app, ["pub", "{oops"])
    assert (done.exit_code, "argument 1: not valid JSON" in done.stderr) == (1, True)
    done = runner.invoke(app, ["--url", "localhost:8080", "status"])
    assert (done.exit_code, "expected an address such as" in done.stderr) == (1, True)
    done = runner.invoke(app, ["trace", '[{"id":"a"},{"id":"b"}]'])
    assert (done.exit_code, "expected one publication, not 2" in done.stderr) == (1, True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--circle", "40,-3"],
            "'--circle': expected 3 numbers LAT,LON,RADIUS_M such as 40.4168,-3.7038,500, not '40,-3'",
        ),
        (["--circle", "40,-3,near"], "'--circle': expected 3 numbers"),
        (["--circle", "40,-3,inf"], "'--circle': expected 3 numbers"),
        (["--box", "1,2,3"], "'--box': expected 4 numbers SOUTH,WEST,NORTH,EAST such as 40.3,-3.9,40.6,-3.5"),
        (["--zone", "Madrid"], "'--zone': not valid JSON"),
        (["--zone", "[1]"], "'--zone': expected a JSON object such as"),
        (["--zone", "@nowhere.json"], "'--zone': cannot read nowhere.json: No such file"),
        (["--circle", "1,2,3", "--box", "1,2,3,4"], "--circle and --box exclude each other"),
        (["--box", "1,2,3,4", "--zone", "{}"], "--box and --zone exclude each other"),
        (["--topic-scope", "above", "--topic", "a"], "'above' is not one of 'self', 'below', 'both'"),
        (["--topic-scope", "self"], "--topic-scope needs the --topic"),
        (["--topic", ""], "--topic needs a topic such as"),
    ],
)
def test_bad_options_of_sub_are_explained(options: list[str], message: str) -> None:
    done = runner.invoke(app, ["--url", NOWHERE, "sub", *options])
    assert done.exit_code == 2
    assert message in done.stderr


@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        (["matcher", "3"], {"matcher": 3}),
        (["matcher=3"], {"matcher": 3}),
        (["matcher=3", "exitpoint=0"], {"matcher": 3, "exitpoint": 0}),
    ],
)
def test_numbers_of_slices_are_read(words: list[str], numbers: dict[str, int]) -> None:
    assert numbers_of(words) == numbers


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "expected a layer and a number"),
        (["matcher"], "expected a layer and a number"),
        (["matcher", "three"], "expected a layer and a number"),
        (["matcher", "3", "exitpoint", "2"], "expected a layer and a number"),
        (["matcher=-1"], "expected a layer and a number"),
        (["=1"], "expected a layer and a number"),
        (["matcher=1111111111"], "expected a layer and a number"),
        (["matcher=1", "matcher=2"], "named twice"),
        (["matcher=1", "--watch", "scaling-1"], "--watch only shows"),
        (["--watch", "scaling-1", "--no-wait"], "--watch only shows"),
        (["--watch", "scaling-1", "--routing", "anchored"], "--watch only shows"),
    ],
)
def test_bad_numbers_of_slices_are_explained(arguments: list[str], message: str) -> None:
    done = runner.invoke(app, ["--url", NOWHERE, "scale", *arguments])
    assert (done.exit_code, message in done.stderr) == (2, True)


def test_sub_knows_every_scope() -> None:
    assert get_args(Scope) == SCOPES


def test_up_becomes_the_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    executed: list[list[str]] = []
    monkeypatch.setattr("os.execv", lambda path, arguments: executed.append([path, *arguments[1:]]))
    options = ["--data", "d", "--port", "0", "--zookeeper", "z:1", "--slices", "matcher=2", "--config", "c.toml"]
    assert runner.invoke(app, ["up", *options]).exit_code == 0
    runner.invoke(app, ["up", "--quiet"])
    launcher = [sys.executable, "-m", "coordinator.launcher"]
    assert executed == [[*launcher, *options], [*launcher, "--quiet"]]


def _sleeper(tmp_path: Path, program: str, *arguments: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"import signal, sys, time\n{program}\nprint('up', flush=True)\ntime.sleep(60)",
            *arguments,
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    cluster = {"pid": process.pid, "api": [], "slices": {"matcher-1": 1, "matcher-2": 2}}
    (tmp_path / "cluster.json").write_text(json.dumps(cluster))
    return process


def test_down_stops_the_launcher(tmp_path: Path) -> None:
    polite = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(print('bye', flush=True)))"
    with _sleeper(tmp_path, polite, "coordinator.launcher") as launcher:
        done = runner.invoke(app, ["down", "--data", str(tmp_path)])
        assert launcher.stdout is not None
        assert launcher.stdout.read() == "bye\n"
    assert (done.exit_code, done.stdout.splitlines()) == (
        0,
        [f"stopping the cluster (process {launcher.pid}, 2 slices)", "stopped"],
    )


def test_down_does_not_wait_for_ever(tmp_path: Path) -> None:
    stubborn = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    with _sleeper(tmp_path, stubborn, "coordinator.launcher") as launcher:
        done = runner.invoke(app, ["down", "--data", str(tmp_path), "--timeout", "0.05"])
        launcher.kill()
    assert done.exit_code == 1
    assert f"kill -9 {launcher.pid}" in done.stderr


def test_down_leaves_strangers_alone(tmp_path: Path) -> None:
    with _sleeper(tmp_path, "", "somebody-else") as stranger:
        done = runner.invoke(app, ["down", "--data", str(tmp_path)])
        assert stranger.poll() is None
        stranger.kill()
    assert done.exit_code == 0
    assert "is no longer its launcher" in done.stdout


def test_down_when_nothing_runs(tmp_path: Path) -> None:
    done = runner.invoke(app, ["down", "--data", str(tmp_path)])
    assert (done.exit_code, "no cluster is running" in done.stdout) == (0, True)
    (tmp_path / "cluster.json").write_text("{}")
    done = runner.invoke(app, ["down", "--data", str(tmp_path)])
    assert (done.exit_code, "does not say which process" in done.stderr) == (1, True)


def test_config_shows_values_sources_and_meanings(tmp_path: Path) -> None:
    file = tmp_path / "b.toml"
    file.write_text('[ingress]\nfsync = "always"\n')
    environment = {"BRAID_API__PORT": "9000"}
    done = runner.invoke(app, ["config", "--config", str(file), "--json"], env=environment)
    settings = json.loads(done.stdout)
    assert settings["ingress.fsync"]["value"] == "always"
    assert settings["ingress.fsync"]["source"] == str(file)
    assert (settings["api.port"]["value"], settings["api.port"]["source"]) == (9000, "environment")
    assert settings["limits.attributes_max"]["description"] == "attributes of one publication"
    shown = runner.invoke(app, ["config"], env=environment).stdout
    line = next(line for line in shown.splitlines() if line.startswith("api.port"))
    assert ("9000" in line, "environment" in line) == (True, True)


def test_config_errors_are_explained(tmp_path: Path) -> None:
    done = runner.invoke(app, ["config", "--config", str(tmp_path / "none.toml")])
    assert (done.exit_code, "there is no configuration file" in done.stderr) == (1, True)
    done = runner.invoke(app, ["config"], env={"BRAID_API__PORT": "high"})
    assert (done.exit_code, "api.port" in done.stderr) == (1, True)


def test_the_entry_point_is_installed() -> None:
    done = subprocess.run([sys.executable, "-m", "braid.cli", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("braid ")


@pytest.mark.parametrize(
    ("arguments", "request_"),
    [
        (
            ["workload", "posts", "--rows", "10", "--out", "x", "--data", "y"],
            {"type": "workload", "kind": "posts", "rows": 10, "out": "x", "data": "y", "seed": 1, "matches": 10},
        ),
        (["words", "--posts", "x", "--out", "y"], {"type": "words", "posts": "x", "out": "y", "vocabulary": 10_000}),
        (
            ["map", "--words", "x", "--parts", "3", "--out", "y"],
            {"type": "map", "words": "x", "parts": 3, "out": "y", "subscriptions": None, "limit": 50_000},
        ),
    ],
)
def test_experiments_are_handed_over(
    arguments: list[str], request_: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr("os.execv", lambda _file, command: started.append(command))
    assert runner.invoke(app, ["experiment", *arguments]).exit_code == 0
    ((*_, module, request),) = started
    assert module == "spark.running"
    assert json.loads(request).items() >= request_.items()
    decode_request(request)


def test_an_experiment_that_makes_no_sense() -> None:
    command = [sys.executable, "-m", "braid.cli", "experiment", "workload", "", "--rows", "5", "--out", "x"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr == "error: there is no workload ''; one of: readings, posts, fleets, subscriptions\n"
