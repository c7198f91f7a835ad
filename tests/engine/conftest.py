"""Small jobs on this computer."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mlcd.api import Client
from mlcd.clouds.local.settings import LocalSettings
from mlcd.settings import Settings
from small_jobs import PROGRAM, MakeJob


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    """A client whose home is empty, on a computer of two cores at a dollar a core-hour."""
    made = Client(Settings(home=tmp_path / "home", clouds=(LocalSettings(usd_per_core_hour=1.0, cores=2),)))
    yield made
    made.sweep(end=True, others=True)
    made.close()


@pytest.fixture
def make_job(tmp_path: Path) -> MakeJob:
    """A job mapping around a program; keys may be added or replaced."""

    def make(program: str = PROGRAM, **keys: Any) -> dict[str, Any]:
        workdir = tmp_path / "code"
        workdir.mkdir(exist_ok=True)
        (workdir / "train.py").write_text(textwrap.dedent(program))
        return {
            "name": "small",
            "workdir": str(workdir),
            "run": "python train.py",
            "work": {"samples": 2000},
            "goal": "fastest",
            "search": "exhaustive",
            "resources": {"instance_type": "local-1c"},
            "probe": {"warmup_seconds": 0.2, "min_seconds": 0.5, "max_seconds": 3, "silent_seconds": 5},
            "checkpoint": {"grace_seconds": 2},
            **keys,
        }

    return make
