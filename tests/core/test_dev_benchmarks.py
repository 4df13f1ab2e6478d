"""`./dev bench` runs what its help names and nothing else, and the documents name the same."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md")])


def dev(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", ROOT / "dev", *arguments], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def benchmarks() -> list[str]:
    named = re.search(r"^  bench NAME +measure; names: (.*)$", dev("help").stdout, re.MULTILINE)
    assert named is not None
    return named[1].split(", ")


def test_each_can_be_run(benchmarks: list[str]) -> None:
    for name in benchmarks:
        places = (ROOT / "benchmarks" / f"{name}.py", ROOT / "benchmarks" / name / "__main__.py")
        assert any(place.is_file() for place in places), name


def test_the_readme_names_them_all(benchmarks: list[str]) -> None:
    named = ", ".join(f"`{name}`" for name in benchmarks)
    assert f"`./dev bench NAME`: {named} |" in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_no_document_names_another(document: Path, benchmarks: list[str]) -> None:
    assert set(re.findall(r"\./dev bench ([a-z]+)", document.read_text(encoding="utf-8"))) <= set(benchmarks)


@pytest.mark.parametrize("name", ["stillness", "relay", "path,", "path match", "scaling/story", ""])
def test_what_only_helps_them_is_refused(name: str, benchmarks: list[str]) -> None:
    done = dev("bench", name)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"dev: there is no benchmark '{name}'; one of: {', '.join(benchmarks)}\n"


def test_without_a_name_it_asks_for_one(benchmarks: list[str]) -> None:
    done = dev("bench")
    assert done.returncode == 1
    assert done.stderr == f"dev: which benchmark? One of: {', '.join(benchmarks)}\n"
