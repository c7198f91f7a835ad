"""The wheels hold what the product needs and nothing else, and work in a clean environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import mlcd
from small_jobs import PROGRAM

ROOT = Path(__file__).resolve().parents[1]
PROJECTS = {"mlcd": ROOT, "mlcd_bench": ROOT / "packages/mlcd-bench", "mlcd_emulate": ROOT / "packages/mlcd-emulate", "mlcd_functions": ROOT / "packages/mlcd-functions"}  # fmt: skip
JOB = "name: tiny\nworkdir: .\nrun: python train.py\nwork: {samples: 3000}\nsearch: {max_probes: 1}\nprobe: {warmup_seconds: 0, min_seconds: 0.2, max_seconds: 0.5}\n"


@dataclass(frozen=True)
class Installed:
    """A virtual environment with wheels of ours, and a folder to work in."""

    python: Path
    folder: Path

    def install(self, *wheels: Path) -> None:
        pip = [sys.executable, "-m", "pip", "--quiet", "--python", str(self.python)]
        subprocess.run([*pip, "install", "--no-deps", "--no-index", *map(str, wheels)], check=True)

    def mlcd(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("MLCD_", "PYTHON"))}  # fmt: skip
        environment |= {
            "MLCD_HOME": str(self.folder / "home"),
            "PATH": f"{self.python.parent}:{os.environ['PATH']}",
        }
        command = [str(self.python.with_name("mlcd")), *arguments]
        return subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    pytest.importorskip("hatchling", reason="pip install hatchling")
    target = tmp_path_factory.mktemp("wheels")
    build = [sys.executable, "-m", "pip", "--quiet", "wheel", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, "--wheel-dir", str(target), *map(str, PROJECTS.values())], check=True)
    return {name: next(target.glob(f"{name}-*.whl")) for name in PROJECTS}


@pytest.fixture(scope="module")
def installed(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """An environment with the wheel of mlcd; other packages are those of the tests, but none of this repository."""
    folder = tmp_path_factory.mktemp("installed")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
    (own,) = (folder / "venv/lib").glob("python*/site-packages")
    others = folder / "others"
    others.mkdir()
    for file in (file for each in site_folders() for file in each.iterdir()):
        ours = "mlcd" in file.name or file.suffix == ".pth"
        if not ours and not (others / file.name).exists():
            (others / file.name).symlink_to(file)
    (own / "others.pth").write_text(f"{others}\n")
    made = Installed(folder / "venv/bin/python", folder)
    made.install(wheels["mlcd"])
    return made


def site_folders() -> list[Path]:
    return [Path(each) for each in sys.path if each.endswith("site-packages")]


@pytest.mark.slow
@pytest.mark.parametrize("name", PROJECTS)
def test_a_wheel_holds_every_file_of_its_package_and_no_other(wheels: dict[str, Path], name: str) -> None:
    source = PROJECTS[name] / "src"
    there = {str(file.relative_to(source)) for file in (source / name).rglob("*") if file.is_file()}
    held = {each for each in zipfile.ZipFile(wheels[name]).namelist() if ".dist-info/" not in each}
    examples = {each for each in held if each.startswith("mlcd/web/pages/programs/")}
    assert held - examples == {each for each in there if "__pycache__" not in each} - examples
    if name == "mlcd":
        assert {
            "mlcd/web/pages/programs/digits/job.yaml",
            "mlcd/web/pages/programs/char_rnn/train.py",
        } <= held


@pytest.mark.slow
def test_the_wheel_alone_plans_and_trains(installed: Installed) -> None:
    assert "Find the right cloud machines" in installed.mlcd("--help").stdout
    folder = installed.folder / "job"
    folder.mkdir()
    (folder / "job.yaml").write_text(JOB)
    (folder / "train.py").write_text(PROGRAM)
    tutorial = ROOT / "docs/tutorial"
    planned = installed.mlcd("plan", str(tutorial / "images.yaml"), "--trace", str(tutorial / "trace.csv"))
    assert planned.returncode == 0, planned.stderr
    assert "Chosen" in planned.stdout
    ran = installed.mlcd("run", "job/job.yaml", "--yes", "--json")
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr
    assert list((installed.folder / "home").rglob("model.json"))


@pytest.mark.slow
def test_the_other_commands_come_with_their_wheels(installed: Installed, wheels: dict[str, Path]) -> None:
    for name in ("bench", "emulate"):
        refused = installed.mlcd(name, "--help")
        assert refused.returncode == 1
        assert f"pip install 'mlcd[{name}]'" in refused.stderr
    installed.install(wheels["mlcd_bench"], wheels["mlcd_emulate"])
    compared = installed.mlcd("bench", "synthetic:7", "--strategies", "random", "--seeds", "1", "--json")
    assert json.loads(compared.stdout)["summary"], compared.stderr
    assert installed.mlcd("emulate", "status").returncode == 102


@pytest.mark.slow
def test_the_cloud_functions_comes_with_its_wheel(installed: Installed, wheels: dict[str, Path]) -> None:
    for command in (["offers", "--cloud", "functions"], ["check", "functions"]):
        refused = installed.mlcd(*command)
        assert refused.returncode == 1
        assert "pip install 'mlcd[functions]'" in refused.stderr
    installed.install(wheels["mlcd_functions"])
    assert "fn-1769mb" in installed.mlcd("offers", "--cloud", "functions", "--json").stdout
    checked = installed.mlcd("check", "functions")
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_all_distributions_have_one_version() -> None:
    found = {name: project(folder) for name, folder in PROJECTS.items()}
    assert {each["version"] for each in found.values()} == {mlcd.__version__}
    extras = found["mlcd"]["optional-dependencies"]
    for name in ("bench", "emulate"):
        assert extras[name] == [f"mlcd-{name}=={mlcd.__version__}"]
        assert any(each.endswith(f"=={mlcd.__version__}") for each in found[f"mlcd_{name}"]["dependencies"])
    assert extras["functions"] == [f"mlcd-functions[launch]=={mlcd.__version__}"]
    assert f"mlcd=={mlcd.__version__}" in found["mlcd_functions"]["dependencies"]


def project(folder: Path) -> dict[str, Any]:
    return dict(tomllib.loads((folder / "pyproject.toml").read_text())["project"])
