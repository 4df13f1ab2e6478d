"""The jars of Apache Kafka: fetched once from Maven Central by Maven, then kept in the user's cache.

`python -m coordinator.kafka_jars` fetches them and says where they are; with `--check` it only says whether they are.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

KAFKA_VERSION = "4.3.1"
FETCH_S_MAX = 600
_REASON_LINES = 3

# slf4j-simple prints what the broker logs; Kafka itself brings only the interface.
_POM = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>braid</groupId>
  <artifactId>kafka-broker</artifactId>
  <version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka_2.13</artifactId>
      <version>{KAFKA_VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId>
      <artifactId>slf4j-simple</artifactId>
      <version>1.7.36</version>
    </dependency>
  </dependencies>
</project>
"""


class KafkaUnusable(Exception):
    """A Kafka broker cannot run here; the message says why and what to do."""


def find_jars() -> Path:
    """The directory of the jars; fetches them when they are not there. One process fetches, the others wait for it."""
    kept = _kept()
    if kept.is_dir():
        return kept
    kept.parent.mkdir(parents=True, exist_ok=True)
    with kept.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.is_dir():
            _fetch(kept)
    return kept


def _fetch(kept: Path) -> None:
    """The directory appears when it is whole."""
    maven = shutil.which("mvn")
    if maven is None:
        raise KafkaUnusable(
            "the jars of Kafka are fetched by Maven, which is not installed; on Debian: apt-get install maven"
        )
    with tempfile.TemporaryDirectory(dir=kept.parent, prefix=f"{kept.name}.") as temporary:
        project = Path(temporary)
        (project / "pom.xml").write_text(_POM)
        _run(
            [maven, "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory=jars"],
            project,
        )
        (project / "jars").rename(kept)


def _run(command: list[str], directory: Path) -> None:
    try:
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=FETCH_S_MAX, check=False)
    except subprocess.TimeoutExpired:
        raise KafkaUnusable(f"Maven Central did not deliver the jars of Kafka within {FETCH_S_MAX} s") from None
    if done.returncode:
        printed = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        errors = [line for line in printed if line.startswith("[ERROR]")] or printed[-_REASON_LINES:]
        raise KafkaUnusable(
            f"the jars of Kafka cannot be fetched from Maven Central: {' / '.join(errors[:_REASON_LINES])}"
        )


def _kept() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "braid" / f"kafka-{KAFKA_VERSION}"


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(not _kept().is_dir())
    try:
        print(find_jars())
    except KafkaUnusable as error:
        print(error, file=sys.stderr)
        sys.exit(1)
