"""Settings: who has the last word, and what is said about a value that cannot be used."""

import os
from pathlib import Path

import pytest

from braid.config import ConfigError, Settings, flatten, load


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No variable of the surroundings, no braid.toml of the working directory."""
    for variable in list(os.environ):
        if variable.upper().startswith("BRAID_"):
            monkeypatch.delenv(variable)
    monkeypatch.chdir(tmp_path)


def problem_of(file: Path | None = None, overrides: dict[str, dict[str, object]] | None = None) -> str:
    with pytest.raises(ConfigError) as raised:
        load(file, overrides)
    return str(raised.value)


def test_defaults() -> None:
    loaded = load()
    assert loaded.settings == Settings()
    assert loaded.sources == {}
    assert loaded.source_of("api.port") == "default"


def test_each_source_is_stronger_than_the_one_before(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "cluster.toml"
    file.write_text('[api]\nport = 1\nhost = "file"\nrequest_timeout_s = 1.5\n')
    assert load(file).settings.api.port == 1
    monkeypatch.setenv("BRAID_API__PORT", "2")
    monkeypatch.setenv("BRAID_API__HOST", "environment")
    assert load(file).settings.api.port == 2
    loaded = load(file, {"api": {"port": 3}})
    assert (loaded.settings.api.port, loaded.settings.api.host) == (3, "environment")
    assert loaded.settings.api.request_timeout_s == 1.5
    assert loaded.sources == {
        "api.port": "command line",
        "api.host": "environment",
        "api.request_timeout_s": str(file),
    }
    assert loaded.source_of("api.port") == "command line"
    assert loaded.source_of("ingress.fsync") == "default"


def test_the_file_in_the_working_directory(tmp_path: Path) -> None:
    (tmp_path / "braid.toml").write_text("[slices]\nmatcher = 3\n")
    loaded = load()
    assert loaded.settings.slices.matcher == 3
    assert loaded.source_of("slices.matcher") == "braid.toml"


def test_the_variable_names_the_file_and_the_command_line_another(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "braid.toml").write_text("[slices]\nmatcher = 3\n")
    (tmp_path / "variable.toml").write_text("[slices]\nmatcher = 4\n")
    (tmp_path / "given.toml").write_text("[slices]\nmatcher = 5\n")
    monkeypatch.setenv("BRAID_CONFIG", "variable.toml")
    assert load().settings.slices.matcher == 4
    assert load(Path("given.toml")).settings.slices.matcher == 5


def test_values_of_the_environment_are_read_as_their_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRAID_INGRESS__FSYNC", "always")
    monkeypatch.setenv("BRAID_INGRESS__RETRY_S", "0.5")
    monkeypatch.setenv("BRAID_CLUSTER__DATA", "/var/lib/braid")
    settings = load().settings
    assert (settings.ingress.fsync, settings.ingress.retry_s) == ("always", 0.5)
    assert settings.cluster.data == Path("/var/lib/braid")


def test_the_url_of_the_command_line_is_no_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRAID_URL", "http://127.0.0.1:9")
    assert load().sources == {}


@pytest.mark.parametrize("variable", ["BRAID_PORT", "BRAID_API__PROT", "BRAID_API", "BRAID_API_PORT", "BRAID_"])
def test_a_misspelt_variable_is_refused(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "1")
    assert problem_of() == f"the environment variable {variable} is not a setting; 'braid config' lists them"


def test_unknown_keys(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text("[api]\nprot = 1\n")
    assert problem_of(file) == f"{file}: there is no setting 'api.prot'; 'braid config' lists them"
    file.write_text("[apis]\nport = 1\n")
    assert problem_of(file).endswith("there is no setting 'apis'; 'braid config' lists them")
    file.write_text("port = 1\n")
    assert problem_of(file) == f"{file}: 'port' is a section, for example [port] in TOML"


@pytest.mark.parametrize(
    ("section", "name", "value", "reason"),
    [
        ("api", "port", "http", "unable to parse string as an integer"),
        ("api", "port", 70_000, "less than or equal to 65535"),
        ("api", "port", 1.5, "fractional part"),
        ("slices", "matcher", 0, "greater than or equal to 1"),
        ("ingress", "fsync", "sometimes", "'always', 'interval' or 'never'"),
        ("links", "silence_s", 0, "greater than 0"),
        ("cluster", "name", "Not A Name", "pattern"),
    ],
)
def test_a_value_that_cannot_be_used(section: str, name: str, value: object, reason: str) -> None:
    problem = problem_of(None, {section: {name: value}})
    assert problem.startswith(f"command line: {section}.{name}: ")
    assert reason in problem
    assert problem.endswith(f"(it is {value!r})")


@pytest.mark.parametrize(
    ("sources", "reason"),
    [
        ([{"topic": "braid-telemetry"}], "kafka.sources has braid-telemetry, which is telemetry.topic"),
        ([{"topic": "braid-braid-ingress"}], "which is the ingress topic (ingress.topic)"),
        ([{"topic": "a", "dead_letters": "a"}], "dead letters of the source a would go to a, which is a source itself"),
        ([{"topic": "a"}, {"topic": "a.dead-letter"}], "would go to a.dead-letter, which is a source itself"),
        ([{"topic": "a", "dead_letters": "braid-braid-ingress"}], "which is the ingress topic"),
        ([{"topic": "a", "dead_letters": "braid-telemetry"}], "which is telemetry.topic"),
    ],
)
def test_topics_that_would_be_read_and_written(sources: list[dict[str, str]], reason: str) -> None:
    assert reason in problem_of(None, {"kafka": {"bootstrap": "kafka:9092", "sources": sources}})


def test_sources_may_share_a_topic_of_dead_letters() -> None:
    sources = [{"topic": "a", "dead_letters": "letters"}, {"topic": "b", "dead_letters": "letters"}]
    assert len(load(None, {"kafka": {"bootstrap": "kafka:9092", "sources": sources}}).settings.kafka.sources) == 2


def test_the_source_of_the_wrong_value_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRAID_API__PORT", "http")
    assert problem_of().startswith("environment: api.port: ")


def test_every_wrong_value_is_told_at_once() -> None:
    problem = problem_of(None, {"api": {"port": -1}, "slices": {"matcher": 99}})
    assert [line.split(": ")[1] for line in problem.splitlines()] == ["slices.matcher", "api.port"]


def test_a_missing_file(monkeypatch: pytest.MonkeyPatch) -> None:
    assert problem_of(Path("nowhere.toml")) == "there is no configuration file nowhere.toml"
    monkeypatch.setenv("BRAID_CONFIG", "nor-here.toml")
    assert problem_of() == "there is no configuration file nor-here.toml"


@pytest.mark.parametrize("text", [b"[api", b"port 1", b"\xff\xfe"])
def test_a_file_that_is_not_toml(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "braid.toml").write_bytes(text)
    assert problem_of().startswith("braid.toml is not TOML: ")


def test_flatten_lists_everything_in_the_order_of_the_model() -> None:
    flat = flatten(Settings())
    assert list(flat)[:2] == ["cluster.name", "cluster.data"]
    assert flat["cluster.data"] == "data"
    assert flat["ingress.fsync"] == "interval"
    assert list(flat)[-1] == "logs.format"


def test_settings_do_not_change() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Settings().api.port = 1  # type: ignore[misc]  # what must fail
