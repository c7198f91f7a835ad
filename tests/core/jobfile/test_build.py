"""What a file does not say follows from what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from job_texts import job, with_run
from mlcd.core.goal import Aim
from mlcd.core.job import Direction, Resources
from mlcd.core.jobfile import parse_job


def test_every_alternative_is_completed_by_what_is_said_for_all() -> None:
    found = job(
        """
run: x
resources:
  cpus: 8
  use_spot: yes
  any_of:
    - {infra: aws/us-west-2, accelerators: H100}
    - {cloud: GCP, accelerators: [A100:2, V100], cpus: 16+, ports: 80}
"""
    )
    assert found.resources == (
        Resources(("ec2",), ("us-west-2",), (), (("H100", 1.0),), 8.0, True, use_spot=True),
        Resources(("gcp",), (), (), (("A100", 2.0), ("V100", 1.0)), 16.0, False, use_spot=True),
    )


@pytest.mark.parametrize(
    ("limits", "aim"),
    [
        ("", Aim.BALANCED),
        ("deadline: 6h", Aim.CHEAPEST),
        ("budget: 100", Aim.FASTEST),
        ("{deadline: 6h, budget: 100}", Aim.CHEAPEST),
        ("goal: balanced\nbudget: 5", Aim.BALANCED),
    ],
)
def test_the_aim_follows_from_the_limits_unless_it_is_said(limits: str, aim: Aim) -> None:
    text = limits.strip("{}").replace(", ", "\n")
    assert job(with_run(text)).aim is aim


@pytest.mark.parametrize(
    ("metric", "direction", "told"),
    [
        ("loss", Direction.DOWN, False),
        ("eval/perplexity", Direction.DOWN, False),
        ("top1_err", Direction.DOWN, False),
        ("accuracy", Direction.UP, False),
        ("f1", Direction.UP, False),
        ("zest", Direction.UP, True),
    ],
)
def test_the_name_of_a_metric_says_which_way_is_better(metric: str, direction: Direction, told: bool) -> None:
    loaded = parse_job(with_run(f"work: {{samples: 10, until: {{metric: {metric}, value: 1}}}}"))
    assert loaded.job.work is not None
    assert loaded.job.work.until is not None
    assert loaded.job.work.until.direction is direction
    assert bool(loaded.notices) is told


@pytest.mark.parametrize(
    ("run", "script", "platform"),
    [
        ("torchrun main.py", "", "pytorch"),
        ("python3 -u train.py --lr 1", "import torch.nn as nn\n", "pytorch"),
        ("python -m pkg.train", "from torch import nn\n", "pytorch"),
        ("python train.py", "import tensorflow as tf\n", "tensorflow"),
        ("python train.py", "import numpy\nfrom keras import layers\n", "tensorflow"),
        ("python train.py", "import jax.numpy as jnp\n", "jax"),
        ("python train.py", "import mxnet as mx\n", "mxnet"),
        ("python train.py", "import jax\nimport torch\n", "pytorch"),
        ("spark-submit train.py", "", "spark"),
        ("python train.py", "from pyspark.sql import SparkSession\n", "spark"),
        ("python train.py", "import torch\nfrom pyspark.ml.torch.distributor import TorchDistributor\n", "spark"),
        ("python train.py", "import numpy\n", "command"),
        ("python gone.py", "import torch\n", "command"),
    ],
)
def test_the_platform_is_seen_from_the_script(tmp_path: Path, run: str, script: str, platform: str) -> None:
    (tmp_path / "pkg").mkdir()
    for file in (tmp_path / "train.py", tmp_path / "pkg" / "train.py"):
        file.write_text(script)
    assert job(f"workdir: .\nrun: {run}", base=tmp_path).platform == platform
