"""`python3 docker/lock.py [--upgrade]`: pins every package of the images to a version and its hashes.

From pyproject.toml to three files beside this one: `build.txt` builds the project, `slices.txt` is what slices and
coordinators need, `spark.txt` what ZooKeeper and Spark need besides. Needs uv: pip install uv. Versions that are
pinned stay as they are where they still fit, unless --upgrade is given.
"""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
HERE = ROOT / "docker"
ONLY_WITH_SPARK = ("matplotlib", "pyarrow", "pyspark")


def name_of(requirement: str) -> str:
    """`psycopg[binary]>=3.2` -> `psycopg`"""
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found, requirement
    return re.sub(r"[-_.]+", "-", found[0]).lower()


def pinned(file: Path) -> dict[str, str]:
    """Name -> version."""
    return dict(re.findall(r"^([a-z0-9-]+)==(\S+)", file.read_text(), re.MULTILINE))


def compile_requirements(requirements: list[str], output: Path, *options: str) -> None:
    command = ["uv", "pip", "compile", "-", "--quiet", "--generate-hashes", "--python-version", "3.11"]
    command += ["--python-platform", "linux", "--custom-compile-command", "python3 docker/lock.py"]
    command += ["--output-file", str(output.relative_to(ROOT)), *options, *sys.argv[1:]]
    subprocess.run(command, input="\n".join(requirements), text=True, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)


def main() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    dependencies: list[str] = project["project"]["dependencies"]
    slices = [each for each in dependencies if name_of(each) not in ONLY_WITH_SPARK]
    compile_requirements(project["build-system"]["requires"], HERE / "build.txt")
    compile_requirements(slices, HERE / "slices.txt")
    present = [f"--no-emit-package={name}" for name in pinned(HERE / "slices.txt")]
    compile_requirements(dependencies, HERE / "spark.txt", "--constraints", "docker/slices.txt", *present)


if __name__ == "__main__":
    main()
