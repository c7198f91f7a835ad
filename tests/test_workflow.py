"""Phases of a workflow hand their model on, and search only where it pays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mlcd.adapt.changes import Conditions
from mlcd.api import Client
from mlcd.clouds.local.settings import LocalSettings
from mlcd.errors import TaskFailedError
from mlcd.settings import Settings
from mlcd.workflow import Workflow

COUNTS = """
import os, pathlib, time
import mlcd
before = os.environ.get("PREVIOUS")
history = (pathlib.Path(before) / "history.txt").read_text() if before else ""
while not mlcd.stopping():
    for _ in mlcd.steps([[0] * 8] * 50):
        time.sleep(0.01)
out = pathlib.Path(os.environ["MLCD_OUTPUT_DIR"])
(out / "history.txt").write_text(history + os.environ["PHASE"])
"""


@pytest.fixture
def flow(tmp_path: Path) -> Workflow:
    (tmp_path / "count.py").write_text(COUNTS)
    job: dict[str, Any] = {
        "name": "flow",
        "workdir": str(tmp_path),
        "run": "python count.py",
        "platform": "command",
        "work": {"samples": 2000},
        "num_nodes": 1,
        "goal": "cheapest",
        "search": {"max_probes": 1},
        "probe": {"warmup_seconds": 0.2, "min_seconds": 0.5, "max_seconds": 2},
    }
    settings = Settings(home=tmp_path / "home", clouds=(LocalSettings(cores=2),))
    return Workflow(Client(settings), job, "local")


@pytest.mark.slow
def test_a_model_goes_from_phase_to_phase_and_little_changes_are_not_searched(flow: Workflow) -> None:
    first = flow.run(Conditions(samples=2000), envs={"PHASE": "a"})
    second = flow.run(Conditions(samples=2100), envs={"PHASE": "b"})
    assert (first.searched, second.searched) == (True, False)
    assert second.deployment == first.deployment
    assert (second.model / "history.txt").read_text() == "ab"
    assert flow.usd == pytest.approx(first.usd + second.usd)


@pytest.mark.slow
def test_a_phase_that_fails_is_told(flow: Workflow) -> None:
    with pytest.raises(TaskFailedError, match="Phase 1"):
        flow.run(Conditions(), run="exit 3")
