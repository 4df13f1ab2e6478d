"""One typed model of everything that can be set, and where each value came from.

Order of precedence: command line, environment (`BRAID_INGRESS__FSYNC=always`), TOML file (`--config`,
else `$BRAID_CONFIG`, else `braid.toml` in the working directory), defaults.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

CONFIG_VARIABLE = "BRAID_CONFIG"
URL_VARIABLE = "BRAID_URL"  # where the command line finds the API; not a setting of the cluster
DEFAULT_FILE = Path("braid.toml")

KIB = 1024
MIB = 1024 * KIB


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Cluster(Section):
    name: str = Field(
        "braid",
        pattern=r"^[a-z0-9-]{1,40}$",
        description="links between clusters of another name are refused",
    )
    data: Path = Field(Path("data"), description="directory of all state on this machine")
    host: str = Field("127.0.0.1", description="address that slices listen on, and announce unless it means all")
    announce: str = Field("", description="address that others reach them under, where they listen on all")
    zookeeper: str = Field("", description="host:port,… of an external ZooKeeper; empty starts the embedded one")
    session_timeout_s: float = Field(10.0, ge=1, le=120, description="ZooKeeper session timeout")
    drain_s: float = Field(
        0.0, ge=0, le=3600, description="how long a slice that is told to stop may let others take over first"
    )


class Slices(Section):
    connpoint: int = Field(1, ge=1, le=64)
    accesspoint: int = Field(1, ge=1, le=64)
    matcher: int = Field(1, ge=1, le=64)
    exitpoint: int = Field(1, ge=1, le=64)


class Api(Section):
    host: str = "127.0.0.1"
    port: int = Field(
        8080,
        ge=0,
        le=65535,
        description="of the first connection point; the others follow; 0 lets the system choose",
    )
    # Matchers count on it: what has moved to another one is still found at the first for a minute (`relocating.py`).
    request_timeout_s: float = Field(
        10.0, gt=0, lt=60, description="how long a call waits for matchers before it answers 503"
    )


class Limits(Section):
    """What a client may send. Each is answered with a problem document that names it."""

    body_bytes_max: int = Field(8 * MIB, ge=KIB, description="HTTP request body, WebSocket message")
    batch_publications_max: int = Field(10_000, ge=1, description="publications in one request")
    publication_bytes_max: int = Field(
        256 * KIB, ge=128, le=1024 * KIB, description="one publication in its canonical JSON form"
    )
    attributes_max: int = Field(128, ge=1, description="attributes of one publication")
    name_length_max: int = Field(
        256, ge=1, description="characters of ids, attribute names, topics, subscribers, objects, entries of words"
    )
    string_length_max: int = Field(16 * KIB, ge=1, description="characters of one attribute value, or of the text")
    filter_length_max: int = Field(16 * KIB, ge=1, description="characters of one filter")
    filter_predicates_max: int = Field(256, ge=1, description="predicates of one filter")
    words_max: int = Field(64, ge=1, description="words that one subscription demands")
    subscriptions_per_connection_max: int = Field(
        10_000, ge=1, description="open subscriptions made over one WebSocket"
    )
    subscriptions_per_connpoint_max: int = Field(
        2_000_000, ge=1, description="subscriptions homed at one connection point"
    )
    connections_max: int = Field(
        10_000, ge=1, description="open HTTP and WebSocket connections of one connection point"
    )


class Links(Section):
    """TCP between slices."""

    frame_bytes_max: int = Field(
        16 * MIB, ge=64 * KIB, description="a longer frame closes the link; longer messages travel in several frames"
    )
    buffer_bytes_max: int = Field(
        32 * MIB,
        ge=64 * KIB,
        description="unsent bytes of one link: from a quarter on upstream is not read, beyond it the link is closed",
    )
    handshake_s: float = Field(5.0, gt=0)
    heartbeat_s: float = Field(2.0, gt=0, description="an idle link says that it lives this often")
    silence_s: float = Field(10.0, gt=0, description="a link from which nothing came for so long is closed")
    backoff_s_min: float = Field(0.05, gt=0)
    backoff_s_max: float = Field(2.0, gt=0)


class Ingress(Section):
    """The log of accepted publications, and the retry loop."""

    log: Literal["leveldb", "kafka"] = Field(
        "leveldb", description="where accepted publications are until they are confirmed; alike for all of a cluster"
    )
    fsync: Literal["always", "interval", "never"] = "interval"
    fsync_interval_s: float = Field(1.0, gt=0)
    window_publications_max: int = Field(
        20_000, ge=1, description="accepted but not yet confirmed; beyond it publishers wait or get 429"
    )
    window_bytes_max: int = Field(32 * MIB, ge=MIB)
    retry_s: float = Field(2.0, gt=0, description="unconfirmed for so long: send again")
    retry_s_max: float = Field(10.0, gt=0, description="the pause doubles up to this")
    retry_batch_max: int = Field(2_000, ge=1, description="publications sent again per tick")
    idempotency_keys_max: int = Field(100_000, ge=1)
    idempotency_s: float = Field(600.0, gt=0, description="how long an Idempotency-Key is remembered")
    topic: str = Field(
        "",
        pattern=r"^[A-Za-z0-9._-]{0,249}$",
        description="of the ingress log in Kafka; empty: braid-<cluster.name>-ingress",
    )
    partitions: int = Field(16, ge=1, le=1024, description="of the topic, when it has to be made")
    replication: int = Field(1, ge=1, le=32, description="of the topic, when it has to be made")
    retention_s: float = Field(7 * 86400.0, ge=60, description="of the topic, when it has to be made")
    backlog_batches_max: int = Field(
        100_000, ge=1, description="unconfirmed in one partition; beyond it publishers wait or get 429"
    )
    commit_s: float = Field(0.2, gt=0, le=60, description="how often is written down what is confirmed")
    write_s_max: float = Field(10.0, gt=0, description="how long publishers wait for Kafka before they get 503")


class Source(Section):
    """One topic of Kafka whose records are published; `kafka.sources` has a list of them."""

    topic: str = Field(pattern=r"^[A-Za-z0-9._-]{1,200}$")
    format: Literal["auto", "publication", "cloudevents", "attributes"] = Field(
        "auto", description="of the value; auto: a CloudEvent when the headers say so, else a publication"
    )
    publication_topic: str = Field("", description="of publications that name none themselves")
    key_attribute: str = Field("key", description="which attribute the key becomes; empty: none")
    begin: Literal["earliest", "latest"] = Field("earliest", description="where a group begins that was never here")
    dead_letters: str = Field(
        "", pattern=r"^[A-Za-z0-9._-]{0,249}$", description="topic of its dead letters; empty: <topic>.dead-letter"
    )

    @property
    def dead_letter_topic(self) -> str:
        return self.dead_letters or f"{self.topic}.dead-letter"


class Kafka(Section):
    """The Kafka that the ingress log is in, and that topics are taken from and delivered to."""

    bootstrap: str = Field("", description="host:port,… of its brokers")
    sources: tuple[Source, ...] = Field((), description="topics that are published; each a table, [[kafka.sources]]")
    group: str = Field(
        "",
        pattern=r"^[A-Za-z0-9._-]{0,200}$",
        description="consumer group of the sources; empty: braid-<cluster.name>",
    )
    session_s: float = Field(
        10.0, ge=0.5, le=300, description="a connection point that Kafka does not hear for so long loses its partitions"
    )
    poll_records_max: int = Field(1_000, ge=1, le=10_000, description="records that are read at once")
    commit_s: float = Field(1.0, gt=0, le=60, description="how often is committed what is confirmed")
    replication: int = Field(
        1, ge=1, le=32, description="of topics for dead letters and telemetry, when they have to be made"
    )
    sink_topics: tuple[str, ...] = Field(
        (),
        description="topics that subscriptions may be delivered to; * and ? stand for others; none unless named here",
    )
    sink: Literal["transactional", "idempotent"] = Field(
        "transactional", description="exactly once behind a crash too, or sooner there and after a crash perhaps twice"
    )
    sink_lanes_max: int = Field(64, ge=1, le=1024, description="topics that one connection point delivers to")
    sink_bytes_max: int = Field(
        1024 * MIB, ge=MIB, description="on disk for one topic; beyond it, what comes is dropped and counted"
    )


class Delivery(Section):
    """What waits for a subscriber."""

    slow_subscriber: Literal["disconnect", "drop-oldest"] = "disconnect"
    outbox_notifications_max: int = Field(50_000, ge=1, description="notifications waiting for one subscriber")
    outbox_bytes_max: int = Field(32 * MIB, ge=KIB)
    total_bytes_max: int = Field(512 * MIB, ge=MIB, description="all outboxes of one connection point together")
    replay_notifications_max: int = Field(
        1_000, ge=0, description="sent notifications kept per subscriber for Last-Event-ID"
    )
    linger_s: float = Field(60.0, ge=0, description="how long a subscriber may be away before its outbox is let go")
    frame_notifications_max: int = Field(1_000, ge=1, description="notifications in one WebSocket frame")
    past_notifications_max: int = Field(
        10_000, ge=1, description="of the past that one subscription is given, the newest"
    )


class Webhooks(Section):
    """Notifications that are posted to the addresses of subscriptions."""

    allow_private: bool = Field(False, description="also to addresses that are not public, such as loopback")
    timeout_s: float = Field(10.0, gt=0, description="how long one attempt may take")
    batch_notifications_max: int = Field(100, ge=1, description="notifications in one request")
    batch_bytes_max: int = Field(256 * KIB, ge=1)
    retry_s: float = Field(1.0, gt=0, description="the pause after the first failure; it doubles")
    retry_s_max: float = Field(3600.0, gt=0, description="the longest pause, also one that a receiver asks for")
    attempts_max: int = Field(20, ge=1, description="of one request; then it is a dead letter")
    refusals_max: int = Field(3, ge=1, description="attempts of a request that the receiver does not want")
    age_s_max: float = Field(86_400.0, gt=0, description="how old a notification may be when it is tried in vain")
    queue_notifications_max: int = Field(50_000, ge=1, description="notifications that wait for one endpoint")
    queue_bytes_max: int = Field(32 * MIB, ge=KIB)
    dead_letters_max: int = Field(1_000, ge=0, description="notifications in dead letters of one endpoint")
    disk_bytes_max: int = Field(1024 * MIB, ge=MIB, description="notifications of all endpoints of a connection point")
    requests_max: int = Field(256, ge=4, description="requests under way, and a quarter of it for retries")
    requests_per_host_max: int = Field(32, ge=1)


class Matching(Section):
    fsync: Literal["always", "interval", "never"] = "interval"
    fsync_interval_s: float = Field(1.0, gt=0)


class Storage(Section):
    """Publications that matchers keep, and the disk under them and the subscriptions."""

    keep_publications: bool = Field(True, description="without it nobody is given the past")
    retention_s: float = Field(
        3600.0, gt=0, le=7 * 86400, description="how long a publication is kept that does not say when it expires"
    )
    retention_s_max: float = Field(7 * 86400.0, gt=0, description="how long one is kept that does, at the most")
    remember_s: float = Field(
        3600.0, ge=0, description="how long after its end a distinct subscription is known to have been given things"
    )
    window_s: int = Field(10, ge=1, description="what expires within so many seconds of one another goes together")
    disk_bytes_max: int = Field(
        10 * 1024 * MIB,
        ge=16 * MIB,
        description="of one matcher: from nine tenths on, the publications that expire first are given up",
    )


class ExitPoint(Section):
    gathers_max: int = Field(
        500_000,
        ge=1,
        description="batches being gathered or awaiting receipt; beyond it partials are dropped",
    )
    gather_s_max: float = Field(
        60.0, gt=0, description="an incomplete publication whose origin fell silent is let go after this"
    )
    away_s_max: float = Field(
        60.0,
        ge=0,
        description="how long a connection point that crashed is waited for, for subscriptions with an address",
    )


class Telemetry(Section):
    """Samples that each slice takes of itself; see `braid experiment follow`."""

    sink: Literal["off", "files", "kafka"] = Field("off", description="where samples go; off: none are taken")
    interval_s: float = Field(1.0, ge=0.1, le=60, description="how often a slice takes one")
    file_s: float = Field(5.0, ge=0.1, le=60, description="how often those of a slice become a file")
    files_bytes_max: int = Field(64 * MIB, ge=64 * KIB, description="files of one slice; beyond it the oldest go")
    retention_s: float = Field(
        3600.0, ge=60, description="how old a file becomes; of the topic, when it has to be made"
    )
    topic: str = Field("braid-telemetry", pattern=r"^[A-Za-z0-9._-]{1,249}$", description="of the sink kafka")


class Logs(Section):
    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["console", "json"] = "json"


class Settings(Section):
    """Everything that can be set."""

    cluster: Cluster = Cluster()
    slices: Slices = Slices()
    api: Api = Api()
    limits: Limits = Limits()
    links: Links = Links()
    ingress: Ingress = Ingress()
    kafka: Kafka = Kafka()
    delivery: Delivery = Delivery()
    webhooks: Webhooks = Webhooks()
    matching: Matching = Matching()
    storage: Storage = Storage()
    exitpoint: ExitPoint = ExitPoint()
    telemetry: Telemetry = Telemetry()
    logs: Logs = Logs()

    @property
    def ingress_topic(self) -> str:
        """Of the ingress log in Kafka."""
        return self.ingress.topic or f"braid-{self.cluster.name}-ingress"

    @model_validator(mode="after")
    def _names_kafka(self) -> "Settings":
        if self.ingress.log == "kafka" and not self.kafka.bootstrap:
            raise ValueError("ingress.log is kafka, so kafka.bootstrap has to name its brokers (host:port,…)")
        if self.kafka.sources and not self.kafka.bootstrap:
            raise ValueError("there are kafka.sources, so kafka.bootstrap has to name the brokers (host:port,…)")
        if self.telemetry.sink == "kafka" and not self.kafka.bootstrap:
            raise ValueError("telemetry.sink is kafka, so kafka.bootstrap has to name its brokers (host:port,…)")
        topics = [source.topic for source in self.kafka.sources]
        if len(topics) != len(set(topics)):
            raise ValueError("kafka.sources has a topic twice")
        return self

    @model_validator(mode="after")
    def _has_no_loops(self) -> "Settings":
        """What Braid writes itself must not come in again, nor dead letters lie among what is read."""
        own = {self.ingress_topic: "the ingress topic (ingress.topic)", self.telemetry.topic: "telemetry.topic"}
        sources = {source.topic for source in self.kafka.sources}
        for source in self.kafka.sources:
            if source.topic in own:
                raise ValueError(f"kafka.sources has {source.topic}, which is {own[source.topic]}")
            letters = source.dead_letter_topic
            where = "a source itself" if letters in sources else own.get(letters)
            if where:
                raise ValueError(f"dead letters of the source {source.topic} would go to {letters}, which is {where}")
        return self


class _Sourced(Settings, BaseSettings):
    """The same fields, in the form that pydantic-settings reads them from."""

    model_config = SettingsConfigDict(env_prefix="BRAID_", env_nested_delimiter="__")


class ConfigError(ValueError):
    """A value that cannot be used; the message says which one and where it came from."""


class Loaded(NamedTuple):
    settings: Settings
    sources: Mapping[str, str]  # "ingress.fsync" -> "environment", "braid.toml", ...; defaults are absent

    def source_of(self, key: str) -> str:
        return self.sources.get(key, "default")


def load(file: Path | None = None, overrides: Mapping[str, Mapping[str, Any]] | None = None) -> Loaded:
    """Reads every source, the strongest last, and remembers which of them had the last word on each value."""
    merged: dict[str, dict[str, Any]] = {}
    sources: dict[str, str] = {}
    for source, values in _layers(file, overrides or {}):
        for section, fields in values.items():
            if not isinstance(fields, Mapping):
                raise ConfigError(f"{source}: '{section}' is a section, for example [{section}] in TOML")
            merged.setdefault(section, {}).update(fields)
            sources.update({f"{section}.{name}": source for name in fields})
    try:
        return Loaded(Settings.model_validate(merged), sources)
    except ValidationError as error:
        raise ConfigError("\n".join(_explain(problem, sources) for problem in error.errors())) from None


def flatten(settings: Settings) -> dict[str, Any]:
    """`section.name` -> value, in the order of the model."""
    return {
        f"{section}.{name}": value
        for section, fields in settings.model_dump(mode="json").items()
        for name, value in fields.items()
    }


def _layers(file: Path | None, overrides: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, Mapping[str, Any]]]:
    layers: list[tuple[str, Mapping[str, Any]]] = []
    named = file or (Path(os.environ[CONFIG_VARIABLE]) if CONFIG_VARIABLE in os.environ else None)
    if named is not None and not named.is_file():
        raise ConfigError(f"there is no configuration file {named}")
    path = named or DEFAULT_FILE
    if path.is_file():
        try:
            layers.append((str(path), TomlConfigSettingsSource(_Sourced, path)()))
        except ValueError as error:
            raise ConfigError(f"{path} is not TOML: {error}") from None
    _refuse_unknown_variables()
    layers.append(("environment", EnvSettingsSource(_Sourced)()))
    layers.append(("command line", overrides))
    return layers


def _refuse_unknown_variables() -> None:
    """A misspelt variable would otherwise be ignored in silence."""
    known = {
        f"BRAID_{section}__{name}".upper() for section, fields in Settings().model_dump().items() for name in fields
    }
    for variable in os.environ:
        if variable in known or variable in (CONFIG_VARIABLE, URL_VARIABLE):
            continue
        if variable.startswith("BRAID_"):
            raise ConfigError(f"the environment variable {variable} is not a setting; 'braid config' lists them")


def _explain(problem: Any, sources: Mapping[str, str]) -> str:
    key = ".".join(str(part) for part in problem["loc"])
    source = sources.get(key, "configuration")
    if not key:  # several settings together
        return f"{source}: {problem['ctx']['error']}"
    if problem["type"] == "extra_forbidden":
        return f"{source}: there is no setting '{key}'; 'braid config' lists them"
    return f"{source}: {key}: {problem['msg']} (it is {problem['input']!r})"
