"""A platform from outside brings all that mlcd knows of it by its entry point; the page that builds one is used as it stands."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from doc_pages import DOCS, blocks_of

PAGE = DOCS / "how-to" / "write-a-platform.md"


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The package of the page, as pip would install it."""
    python = next(block.text for block in blocks_of(PAGE) if block.mark == "contract")
    project = tomllib.loads(next(block.text for block in blocks_of(PAGE) if block.language == "toml"))["project"]
    site = tmp_path / "site"
    metadata = site / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    metadata.mkdir(parents=True)
    (site / "mlcd_lightgbm.py").write_text(python)
    (metadata / "METADATA").write_text(f"Name: {project['name']}\nVersion: {project['version']}\n")
    points = project["entry-points"]["mlcd.platforms"]
    lines = "".join(f"{name} = {target}\n" for name, target in points.items())
    (metadata / "entry_points.txt").write_text(f"[mlcd.platforms]\n{lines}")
    return site


@pytest.mark.parametrize(
    ("script", "platform"),
    [("import lightgbm", "lightgbm"), ("import torch", "pytorch"), ("import json", "command")],
)
def test_scripts_of_an_outside_platform_are_recognised(
    installed: Path, tmp_path: Path, script: str, platform: str
) -> None:
    (tmp_path / "train.py").write_text(script)
    assert platform_of("python train.py", tmp_path, installed) == platform


def test_a_platform_that_cannot_be_imported_does_not_keep_other_jobs_from_loading(
    installed: Path, tmp_path: Path
) -> None:
    (installed / "mlcd_lightgbm.py").write_text("import no_such_package_here")
    (tmp_path / "train.py").write_text("import torch")
    assert platform_of("python train.py", tmp_path, installed) == "pytorch"


def platform_of(run: str, folder: Path, installed: Path) -> str:
    program = f"""
from pathlib import Path
from mlcd.core.jobfile import parse_job
print(parse_job("run: {run}\\nworkdir: .\\nwork: {{samples: 10}}", "job.yaml", Path({str(folder)!r})).job.platform)
"""
    path = os.pathsep.join([str(installed), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
