"""The files that containers are made from say what the code says. Nothing is started here; tests/compose does that."""

import json
import re
import runpy
import tomllib
from pathlib import Path

import pytest
from prometheus_client.metrics import MetricWrapperBase

from braid import metrics
from braid.config import Settings

ROOT = Path(__file__).parents[2]
LOCK = runpy.run_path(str(ROOT / "docker/lock.py"))
COMPOSE = (ROOT / "docker-compose.yml").read_text()
DOCKERFILE = (ROOT / "Dockerfile").read_text()
DASHBOARD = json.loads((ROOT / "docker/grafana/dashboards/braid.json").read_text())
EXPRESSIONS = [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", [])]


def series_of(collector: MetricWrapperBase) -> list[str]:
    (described,) = collector.describe()
    name = described.name
    suffixes = {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"]}.get(described.type, [""])
    return [name + suffix for suffix in suffixes]


# What prometheus_client tells of every process.
OF_THE_PROCESS = {"process_cpu_seconds_total", "process_resident_memory_bytes"}


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_metric_of_the_dashboard_exists_with_its_labels(expression: str) -> None:
    ours = [each for each in vars(metrics).values() if isinstance(each, MetricWrapperBase)]
    labels = {series: set(each._labelnames) for each in ours for series in series_of(each)}
    named = set(re.findall(r"\b((?:braid|process)_\w+)", expression))
    assert named
    assert named <= labels.keys() | OF_THE_PROCESS
    known = set().union(*(labels.get(series, set()) for series in named)) | {"le", "instance", "service", "job"}
    for by in re.findall(r"by \(([^)]*)\)", expression):
        assert {label.strip() for label in by.split(",")} <= known


def test_the_dashboard_is_whole() -> None:
    assert len(EXPRESSIONS) > 20
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    datasource = (ROOT / "docker/grafana/provisioning/datasources/prometheus.yml").read_text()
    (uid,) = re.findall(r"uid: (\w+)", datasource)
    used = {target["datasource"]["uid"] for panel in DASHBOARD["panels"] for target in panel.get("targets", [])}
    assert used == {uid}


def test_every_legend_names_labels_that_its_expression_leaves() -> None:
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", []):
            left = re.findall(r"\) by \(([^)]*)\)", target["expr"])
            if left:
                named = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
                assert named <= {label.strip() for label in left[-1].split(",")}, target["expr"]


def test_every_variable_of_the_containers_is_a_setting() -> None:
    settings = Settings().model_dump()
    known = {f"BRAID_{section}__{name}".upper() for section, fields in settings.items() for name in fields}
    named = set(re.findall(r"\bBRAID_\w+", COMPOSE))
    assert len(named) > 5
    assert named <= known


def test_a_slice_that_lets_others_take_over_is_not_killed_meanwhile() -> None:
    (drain_s,) = re.findall(r'BRAID_CLUSTER__DRAIN_S: "(\d+)"', COMPOSE)
    grace_s = int(re.findall(r"stop_grace_period: (\d+)s", COMPOSE)[0])
    assert int(drain_s) + 5 <= grace_s


def test_every_file_that_is_copied_or_mounted_exists() -> None:
    copied = [
        source
        for line in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.MULTILINE)
        for source in line.split()[:-1]
    ]
    mounted = re.findall(r"- \./([\w./-]+):", COMPOSE)
    assert len(copied) > 8
    assert len(mounted) == 3
    for path in (*copied, *mounted):
        assert (ROOT / path).exists(), path


def test_every_package_of_the_project_is_in_the_image() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = {each.rstrip("*") for each in project["tool"]["setuptools"]["packages"]["find"]["include"]}
    assert packages == set(re.findall(r"^COPY (\w+) \1$", DOCKERFILE, re.MULTILINE))
    let_in = set(re.findall(r"^!(\w+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE))
    assert packages <= let_in


def test_every_image_from_elsewhere_has_a_version() -> None:
    images = re.findall(r"image: \$\{\w+:-(.*)\}", COMPOSE)
    assert len(images) == 3
    for image in images:
        assert re.fullmatch(r"[\w/-]+:v?\d+\.\d+\.\d+", image), image


def test_every_dependency_is_pinned_with_hashes() -> None:
    """When this fails, a dependency has come or gone: run python3 docker/lock.py."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    slices, spark = (LOCK["pinned"](ROOT / "docker" / file) for file in ("slices.txt", "spark.txt"))
    assert not slices.keys() & spark.keys()
    assert "cramjam" in slices, "what aiokafka's extras bring: without it compressed topics cannot be read"
    for requirement in project["project"]["dependencies"]:
        version = (slices | spark).get(LOCK["name_of"](requirement))
        assert version, f"{requirement} is not pinned"
        least, most = (re.findall(bound + r"=([\d.]+)", requirement) for bound in "><")
        assert all(_numbers(version) >= _numbers(bound) for bound in least), f"{requirement}, but {version} is pinned"
        assert all(_numbers(version) <= _numbers(bound) for bound in most), f"{requirement}, but {version} is pinned"
    for file in ("build.txt", "slices.txt", "spark.txt"):
        text = (ROOT / "docker" / file).read_text()
        for entry in re.split(r"^(?=\S+==)", text, flags=re.MULTILINE)[1:]:
            assert "--hash=sha256:" in entry, entry


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]
