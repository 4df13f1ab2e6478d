"""The one place that makes a Spark session."""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from spark.errors import ExperimentError
from spark.starting import PackagesMissingError, kept_to_itself

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL = "local[*]"
_JAVA_ADVICE = (
    "Spark needs Java 17 or newer. On Debian: apt-get install default-jre-headless; elsewhere install a Java runtime "
    "and let JAVA_HOME or PATH say where it is"
)
# Spark makes one method of all steps of a row. Java leaves methods of that size to its interpreter, unless it is told.
_COMPILE_ALL = "-XX:-DontCompileHugeMethods"
_QUIET = Path(__file__).parent / "log4j2.properties"


@contextmanager
def spark_session(master: str = LOCAL, settings: dict[str, str] | None = None) -> Iterator["SparkSession"]:
    """A session for one command. One that is there already is somebody else's: it is used, and left as it is."""
    from pyspark.sql import SparkSession

    if (running := SparkSession.getActiveSession()) is not None:
        yield running
        return
    check_java()
    spark = _start(master, settings or {})
    try:
        yield spark
    finally:
        with suppress(ConnectionError):  # whoever stops us may have stopped Java, too
            spark.stop()


def check_java() -> None:
    """Spark itself would show the output of a shell script."""
    home = os.environ.get("JAVA_HOME")
    if home and not (Path(home) / "bin" / "java").is_file():
        raise ExperimentError(f"JAVA_HOME is {home}, where there is no bin/java. {_JAVA_ADVICE}")
    if not home and shutil.which("java") is None:
        raise ExperimentError(f"no Java was found. {_JAVA_ADVICE}")


def _start(master: str, settings: dict[str, str]) -> "SparkSession":
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    # Who calls us may set it; executors of a cluster have a Python of their own.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable if master.startswith("local") else "python3")
    builder = SparkSession.builder.appName("braid").master(master)
    for name, value in {**_settings(master), **settings}.items():
        builder = builder.config(name, value)
    packages = settings.get("spark.jars.packages", "")
    try:
        with kept_to_itself() if packages else nullcontext():
            return builder.getOrCreate()
    except PackagesMissingError as error:
        raise ExperimentError(
            f"Spark cannot get {packages} from Maven Central: {error}. It is needed once, and kept in the Ivy cache of "
            "your home directory; a machine without a way to Maven Central can use a copy of that"
        ) from None
    except PySparkException as error:
        raise ExperimentError(f"Spark did not start: {error}. {_JAVA_ADVICE}") from None
    except Py4JJavaError as error:
        why = str(error.java_exception.getMessage()).splitlines()[0]
        raise ExperimentError(
            f"Spark did not start with --master {master}: {why}. Give local[*], local[N] or the address of a cluster"
        ) from None


def _settings(master: str) -> dict[str, str]:
    settings = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "true",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_QUIET.as_uri()} {_COMPILE_ALL}",
    }
    if master.startswith("local"):
        # Spark's 200 are for clusters; here each would cost more than its work. A few per core even out their sizes.
        settings["spark.sql.shuffle.partitions"] = str(4 * (os.cpu_count() or 1))
        settings["spark.driver.memory"] = "2g"  # the executor is in the same process
        settings["spark.driver.host"] = settings["spark.driver.bindAddress"] = "127.0.0.1"
    return settings
