"""An image that does with its variables what the official one of Kafka does, from the jars that tests use anyway."""

import shutil
import tempfile
from pathlib import Path

from coordinator.kafka_jars import find_jars
from tests.compose.docker_host import Docker

IMAGE = "braid-test-kafka"

DOCKERFILE = """\
FROM braid-java:latest
USER root
RUN install --directory --owner=braid /var/lib/kafka/data
COPY jars /opt/kafka
COPY start.py /opt/start.py
USER braid
CMD ["python", "/opt/start.py"]
"""

# KAFKA_LOG_DIRS becomes log.dirs.
START = """\
import os, subprocess
names = {name for name in os.environ if name.startswith("KAFKA_")}
lines = [f"{name[6:].lower().replace('_', '.')}={os.environ[name]}" for name in sorted(names)]
open("/tmp/server.properties", "w").write("\\n".join(lines))
java = ["java", "-Xmx256m", "-cp", "/opt/kafka/*"]
options = ["--ignore-formatted", "-t", "5L6g3nShT-eMCtK--X86sw", "-c", "/tmp/server.properties"]
subprocess.run([*java, "kafka.tools.StorageTool", "format", *options], check=True)
os.execvp("java", [*java, "kafka.Kafka", "/tmp/server.properties"])
"""


def build(docker: Docker) -> None:
    """Raises `KafkaUnusable` where there are no jars."""
    jars = find_jars()
    with tempfile.TemporaryDirectory(prefix="braid-kafka-image-") as context:
        shutil.copytree(jars, Path(context) / "jars")
        (Path(context) / "Dockerfile").write_text(DOCKERFILE)
        (Path(context) / "start.py").write_text(START)
        docker.docker("build", "--tag", IMAGE, context, timeout_s=300)
