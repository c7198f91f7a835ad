"""The variables that mlcd sets for this process, read once."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Target:
    """A metric's value that ends the training (core.job.Target, read without mlcd's core)."""

    metric: str
    value: float
    upwards: bool

    def reached(self, value: float) -> bool:
        """Whether the metric has got there."""
        if not math.isfinite(value):
            return False
        return value >= self.value if self.upwards else value <= self.value


@dataclass(frozen=True)
class Environment:
    """The variables described in mlcd.worker, with defaults for those that are absent or malformed."""

    task_id: str = ""
    progress_dir: Path | None = None
    checkpoint_dir: Path | None = None
    checkpoint_keep: int = 0  # 0: all
    saves_to: Path | None = None  # where the program keeps checkpoints of its own
    save_seconds: float = 0.0  # between two saves, where the job says so; 0: as their cost and the losses have it
    loss_seconds: float = 0.0  # mean time between two losses; 0: not known
    rank: int = 0
    world_size: int = 1
    servers: int = 0  # of that world: they train nothing
    place_given: bool = False  # to the program, by its command: it knows that there are others
    batch_size: int = 0  # of all ranks together; 0: not known
    local_batch_size: int = 0  # 0: not known
    base_batch_size: int = 0  # for which the program's learning rate was chosen
    accumulation_steps: int = 1
    lr_rule: str = "none"
    lr_scale: float = 0.0  # 0: not given
    noise: bool = False  # whether to measure the gradient noise
    noise_scale: float = 0.0  # samples, as measured before; 0: not known
    epoch_samples: float = 0.0  # of the data set; 0: not known
    work_samples: float = 0.0
    samples_before: float = 0.0
    target: Target | None = None

    @property
    def started_by_mlcd(self) -> bool:
        """Whether mlcd started this program."""
        return bool(self.task_id or self.progress_dir)


def read_environment(environ: Mapping[str, str] | None = None) -> Environment:
    """The environment of this process."""
    env = os.environ if environ is None else environ
    return Environment(
        task_id=env.get("MLCD_TASK_ID", ""),
        progress_dir=_folder(env, "MLCD_PROGRESS_DIR"),
        checkpoint_dir=_folder(env, "MLCD_CHECKPOINT_DIR"),
        checkpoint_keep=int(_number(env, "MLCD_CHECKPOINT_KEEP")),
        saves_to=_saves_to(env),
        save_seconds=_number(env, "MLCD_SAVE_SECONDS"),
        loss_seconds=_number(env, "MLCD_LOSS_SECONDS"),
        rank=int(_number(env, "RANK")),
        world_size=max(1, int(_number(env, "WORLD_SIZE", 1))),
        servers=int(_number(env, "MLCD_SERVERS")),
        place_given=_number(env, "MLCD_PLACE_GIVEN") > 0,
        batch_size=int(_number(env, "MLCD_BATCH_SIZE")),
        local_batch_size=int(_number(env, "MLCD_LOCAL_BATCH_SIZE")),
        base_batch_size=int(_number(env, "MLCD_BASE_BATCH_SIZE")),
        accumulation_steps=max(1, int(_number(env, "MLCD_ACCUMULATION_STEPS", 1))),
        lr_rule=env.get("MLCD_LR_RULE", "none").strip().lower(),
        lr_scale=_number(env, "MLCD_LR_SCALE"),
        noise=_number(env, "MLCD_NOISE") > 0,
        noise_scale=_number(env, "MLCD_NOISE_SCALE"),
        epoch_samples=_number(env, "MLCD_EPOCH_SAMPLES"),
        work_samples=_number(env, "MLCD_WORK_SAMPLES"),
        samples_before=_number(env, "MLCD_SAMPLES_BEFORE"),
        target=_target(env.get("MLCD_TARGET", "")),
    )


def _folder(env: Mapping[str, str], name: str) -> Path | None:
    return Path(env[name]) if env.get(name) else None


def _saves_to(env: Mapping[str, str]) -> Path | None:
    path = env.get("MLCD_CHECKPOINT_PATH")
    return Path(env.get("MLCD_WORKDIR", ""), path).absolute() if path else None


def _number(env: Mapping[str, str], name: str, default: float = 0.0) -> float:
    try:
        return max(0.0, min(1e18, float(env.get(name) or default)))
    except ValueError:
        return default


def _target(text: str) -> Target | None:
    try:
        target: Any = json.loads(text) if text else None
        return (
            Target(str(target["metric"]), float(target["value"]), target.get("direction") == "up") if target else None
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
