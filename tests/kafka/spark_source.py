"""`braid experiment follow` with Spark's source for Kafka, which Spark fetches from Maven Central."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest

from coordinator.kafka import KafkaServer

FOLLOW_S_MAX = 240  # with what Spark has to fetch the first time

# The source needs it for delegation tokens, which nobody has here. Maven Central does not have it of every version that
# it has the source of; then this one stands in.
TOKENS = "spark-token-provider-kafka-0-10_2.13"
TOKENS_VERSION = "4.0.0"


def follow(kafka: KafkaServer, topic: str, directory: Path) -> dict[str, Any]:
    """What it says at its end. Where something cannot be fetched, the test is skipped."""
    places = ("--checkpoint", str(directory / "checkpoint"), "--out", str(directory / "windows"))
    where = ("--source", "kafka", "--bootstrap", kafka.bootstrap, "--topic", topic)
    options = ("--window", "5s", "--late", "5s", "--master", "local[2]", "--once", "--json")
    command = (sys.executable, "-m", "braid.cli", "experiment", "follow", *where, *places, *options)
    done = _run(command)
    if done.returncode and f"org.apache.spark#{TOKENS};" in done.stderr:
        done = _run(command, with_tokens_of(directory, done.stderr))
    if done.returncode and "from Maven Central" in done.stderr:
        skip(done.stderr)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def with_tokens_of(directory: Path, missing: str) -> dict[str, str]:
    """An environment in which Spark does not look for that of its own version."""
    maven = shutil.which("mvn")
    if maven is None:
        skip(f"{missing.rstrip()}; that of version {TOKENS_VERSION} is fetched by Maven, which is not installed")
    wanted = f"-Dartifact=org.apache.spark:{TOKENS}:{TOKENS_VERSION}"
    copied = _run((maven, "-q", "-B", "dependency:copy", wanted, f"-DoutputDirectory={directory}"))
    if copied.returncode:
        skip(f"{missing.rstrip()}; of version {TOKENS_VERSION}: {copied.stdout}")
    jar = directory / f"{TOKENS}-{TOKENS_VERSION}.jar"
    options = ("--conf", f"spark.jars.excludes=org.apache.spark:{TOKENS}", "--jars", str(jar))
    return {"PYSPARK_SUBMIT_ARGS": shlex.join((*options, "pyspark-shell"))}


def skip(why: str) -> NoReturn:
    pytest.skip(" ".join(why.split()))


def _run(command: tuple[str, ...], more: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **(more or {})}
    return subprocess.run(command, capture_output=True, text=True, timeout=FOLLOW_S_MAX, check=False, env=environment)
