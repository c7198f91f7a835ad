"""Which programs nobody would count is said before anything is started."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mlcd.core.counting import uncounted
from mlcd.core.job import Job, ProgressSettings

LOOP = "for batch in batches:\n    weights = step(weights, batch)\n"


def job(workdir: Path, program: str, platform: str) -> Job:
    (workdir / "train.py").write_text(program)
    return Job(name="job", run="python train.py", workdir=str(workdir), platform=platform)


@pytest.mark.parametrize(
    ("platform", "program"),
    [
        ("jax", f"import jax\n{LOOP}"),
        ("tensorflow", f"import tensorflow as tf\n{LOOP}"),
        ("tensorflow", "import os\nos.environ['KERAS_BACKEND'] = 'jax'\nimport keras\nmodel.fit(x, y)\n"),
        ("mxnet", f"import mxnet\n{LOOP}"),
    ],
)
def test_a_loop_that_nobody_sees_is_told_what_to_do(tmp_path: Path, platform: str, program: str) -> None:
    silent = job(tmp_path, program, platform)
    assert "mlcd.steps" in (uncounted(silent) or "")
    assert uncounted(replace(silent, progress=ProgressSettings(pattern=r"step (?P<step>\d+)"))) is None


@pytest.mark.parametrize(
    ("platform", "program"),
    [
        ("tensorflow", "import keras\nmodel.fit(x, y)\n"),
        ("jax", f"import jax\nimport mlcd\n{LOOP}"),
        ("jax", "import jax\nimport torch\n"),
        ("command", LOOP),
    ],
)
def test_programs_that_are_counted_or_that_nothing_is_known_of_are_left_alone(
    tmp_path: Path, platform: str, program: str
) -> None:
    assert uncounted(job(tmp_path, program, platform)) is None


def test_a_program_elsewhere_is_left_alone(tmp_path: Path) -> None:
    assert uncounted(Job(name="job", run="train", workdir=str(tmp_path), platform="jax")) is None
