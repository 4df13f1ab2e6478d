"""The running cluster as tests see it: over its published port, and inside its containers."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

from tests.compose.docker_host import Docker

READY_S = 120.0


class ComposedCluster:
    def __init__(self, docker: Docker, api: str) -> None:
        self.docker = docker
        self.api = api

    def up(self, **numbers: int) -> None:
        """Starts it, or other numbers of containers; those that run already stay as they are."""
        scales = [option for service, number in numbers.items() for option in ("--scale", f"{service}={number}")]
        self.docker.compose("up", "--detach", "--no-recreate", "--no-build", *scales)

    def more(self, service: str, number: int) -> None:
        """New containers beside those that run, of this service only."""
        options = ["--detach", "--no-deps", "--no-build", "--no-recreate", "--scale", f"{service}={number}"]
        self.docker.compose("up", *options, service)

    def recreate(self, service: str, number: int, **variables: str) -> None:
        """New containers in the place of those that run."""
        options = ["--detach", "--no-deps", "--no-build", "--force-recreate", "--scale", f"{service}={number}"]
        self.docker.compose("up", *options, service, variables=variables)

    def ids(self, service: str) -> list[str]:
        """Of its containers: names are used again."""
        return [self.docker.docker("inspect", "--format", "{{.Id}}", name) for name in self.docker.containers(service)]

    def braid(self, *arguments: str) -> str:
        """The command line, in the container of a connection point."""
        (connpoint, *_) = self.docker.containers("connpoint")
        return self.docker.docker("exec", connpoint, "braid", *arguments)

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(self.api + path, timeout=20) as response:
            return json.load(response)

    def post(self, path: str, body: Any) -> Any:
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.api + path, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=20) as response:
            return json.load(response)

    def is_ready(self) -> bool:
        try:
            return bool(self.get("/readyz")["status"] == "ready")
        except (OSError, ValueError):
            return False

    def slices(self, layer: str) -> dict[str, str]:
        """Name -> the address of its container."""
        found = self.get("/v1/cluster")["slices"]
        return {each["name"]: each["address"].rpartition(":")[0] for each in found if each["layer"] == layer}

    def configured(self, layer: str) -> list[str]:
        """Those that take part and are there, by name; empty while something changes."""
        cluster = self.get("/v1/cluster")
        found = [each["name"] for each in cluster["slices"] if each["layer"] == layer and each["epoch"] is not None]
        return [] if cluster["change"] is not None else sorted(found)

    def container_of(self, name: str) -> str:
        layer = name.rpartition("-")[0]
        address = self.slices(layer)[name]
        shape = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
        for container in self.docker.containers(layer):
            if self.docker.docker("inspect", "--format", shape, container).strip() == address:
                return container
        raise LookupError(f"{name} at {address} runs in no container")

    def log(self, container: str) -> str:
        return self.docker.log(container)


def until(condition: Callable[[], object], timeout_s: float = READY_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "this did not become true in time"
        time.sleep(0.2)
