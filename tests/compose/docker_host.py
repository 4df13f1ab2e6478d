"""A docker daemon for tests: the one that runs here, or one of their own in a directory of its own.

There may be no registry: where the base image cannot be pulled it is made with debootstrap, from the same packages.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
BASE = "debian:12-slim"
DAEMON_S = 30.0
PULL_S = 60.0
OWN_CERTIFICATES = Path("/usr/local/share/ca-certificates")
ALL_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")


class Unusable(Exception):
    """Why no container can be started here."""


class Docker:
    """Runs docker and compose; `variables` are those of docker-compose.yml. Raises `Unusable` without compose."""

    def __init__(self, host: str | None, project: str, variables: Mapping[str, str]) -> None:
        self.project = project
        self.variables = variables
        self._environment = {**os.environ, **variables, "COMPOSE_PROJECT_NAME": project}
        if host is not None:
            self._environment["DOCKER_HOST"] = host
        self._compose = self._find_compose()

    def docker(self, *arguments: str, timeout_s: float = 120.0, given: bytes = b"") -> str:
        return self._run(["docker", *arguments], timeout_s, given)

    def compose(self, *arguments: str, timeout_s: float = 180.0, variables: Mapping[str, str] | None = None) -> str:
        """`variables` are for this call only."""
        return self._run([*self._compose, *arguments], timeout_s, variables=variables)

    def containers(self, service: str) -> list[str]:
        """The names of those that run, in the order of their numbers."""
        ours = f"label=com.docker.compose.project={self.project}"
        filters = ["--filter", ours, "--filter", f"label=com.docker.compose.service={service}"]
        return sorted(self.docker("ps", *filters, "--format", "{{.Names}}").split())

    def log(self, container: str) -> str:
        """Slices write it to standard error."""
        command = ["docker", "logs", container]
        done = subprocess.run(
            command, env=self._environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=True
        )
        return done.stdout.decode(errors="replace")

    def _find_compose(self) -> list[str]:
        if self._succeeds("docker", "compose", "version"):
            return ["docker", "compose"]
        if shutil.which("docker-compose") is None:
            raise Unusable("docker is here without compose; on Debian: apt-get install docker-compose")
        return ["docker-compose"]

    def _succeeds(self, *command: str) -> bool:
        return subprocess.run(command, env=self._environment, capture_output=True, check=False).returncode == 0

    def _run(
        self, command: list[str], timeout_s: float, given: bytes = b"", variables: Mapping[str, str] | None = None
    ) -> str:
        environment = {**self._environment, **(variables or {})}
        done = subprocess.run(
            command, env=environment, cwd=ROOT, input=given, capture_output=True, timeout=timeout_s, check=False
        )
        output, errors = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        if done.returncode:
            raise AssertionError(
                f"{' '.join(command)} ended with {done.returncode}\n{output[-4000:]}\n{errors[-4000:]}"
            )
        return output


@contextlib.contextmanager
def docker_host() -> Iterator[str | None]:
    """The address of a daemon, None for the usual one. Raises `Unusable`."""
    if shutil.which("docker") is None:
        raise Unusable("docker is not installed; on Debian: apt-get install docker.io docker-compose debootstrap")
    if subprocess.run(["docker", "info"], capture_output=True, check=False).returncode == 0:
        yield None
        return
    if shutil.which("dockerd") is None:
        raise Unusable("no docker daemon answers, and dockerd is not installed here (apt-get install docker.io)")
    if os.geteuid() != 0:
        raise Unusable("no docker daemon answers, and only root can start one")
    with _own_directory() as directory, _own_daemon(directory) as host:
        yield host


def ensure_base(docker: Docker) -> None:
    """The image that the Dockerfile begins with. Raises `Unusable`."""
    for command in (("image", "inspect", BASE), ("pull", "--quiet", BASE)):
        with contextlib.suppress(AssertionError, subprocess.TimeoutExpired):
            docker.docker(*command, timeout_s=PULL_S)
            return
    if os.geteuid() != 0:
        raise Unusable(f"{BASE} cannot be pulled, and only root can make it with debootstrap")
    if shutil.which("debootstrap") is None:
        raise Unusable(f"{BASE} cannot be pulled, and there is no debootstrap to make it (apt-get install debootstrap)")
    with tempfile.TemporaryDirectory(prefix="braid-base-") as directory:
        root = Path(directory) / "root"
        _debootstrap(root)
        shutil.rmtree(root / "var/cache/apt/archives")
        shutil.rmtree(root / "var/lib/apt/lists")
        changes = _trust_what_is_trusted_here(root)
        packed = subprocess.run(["tar", "--create", "--directory", root, "."], capture_output=True, check=True)
        docker.docker("import", *changes, "-", BASE, given=packed.stdout)


def _debootstrap(root: Path) -> None:
    """Packages may be as far away as the registry was."""
    command = ["debootstrap", "--variant=minbase", "bookworm", str(root)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        why = _last_line(done.stdout.decode(errors="replace"))
        raise Unusable(f"{BASE} cannot be pulled, and debootstrap cannot make it: {why}")


def _last_line(output: str) -> str:
    """A test that is skipped has one line for the reason."""
    return output.strip().rpartition("\n")[2]


def _trust_what_is_trusted_here(root: Path) -> list[str]:
    """Where packages come through a proxy with a certificate of its own, the containers have to know that one too."""
    if not OWN_CERTIFICATES.is_dir() or not ALL_CERTIFICATES.is_file():
        return []
    shutil.copytree(OWN_CERTIFICATES, root / OWN_CERTIFICATES.relative_to("/"), dirs_exist_ok=True)
    bundle = root / ALL_CERTIFICATES.relative_to("/")
    bundle.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(ALL_CERTIFICATES, bundle)
    return ["--change", f"ENV PIP_CERT={ALL_CERTIFICATES}"]


@contextlib.contextmanager
def _own_directory() -> Iterator[Path]:
    """COMPOSE_TESTS_DIRECTORY keeps the images for the next time; they take minutes and some gigabytes."""
    kept = os.environ.get("COMPOSE_TESTS_DIRECTORY")
    if kept:
        Path(kept).mkdir(parents=True, exist_ok=True)
        yield Path(kept)
        return
    with tempfile.TemporaryDirectory(prefix="braid-docker-") as directory:
        yield Path(directory)


@contextlib.contextmanager
def _own_daemon(directory: Path) -> Iterator[str]:
    socket = directory / "docker.sock"
    host = f"unix://{socket}"
    command = ["dockerd", "--host", host, "--data-root", f"{directory}/data", "--exec-root", f"{directory}/exec"]
    with (directory / "dockerd.log").open("wb") as log:
        daemon = subprocess.Popen([*command, "--pidfile", f"{directory}/dockerd.pid"], stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + DAEMON_S
        while subprocess.run(["docker", "--host", host, "info"], capture_output=True, check=False).returncode:
            if daemon.poll() is not None or time.monotonic() > deadline:
                why = _last_line((directory / "dockerd.log").read_text(errors="replace"))
                raise Unusable(f"dockerd does not start here: {why}")
            time.sleep(0.2)
        yield host
    finally:
        daemon.terminate()
        try:
            daemon.wait(30)
        except subprocess.TimeoutExpired:
            print("dockerd did not stop in time and is killed", file=sys.stderr)
            daemon.kill()
            daemon.wait()
