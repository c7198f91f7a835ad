"""What ranks report is placed in time by the clock of their machines."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from mlcd.clouds.tasks.progress import Follower
from mlcd.core.machines import Deployment, InstanceType, Offer
from mlcd.core.task import Task, TaskFolder, TaskKind

STARTED_AT = 1_800_000_000.0


@dataclass(frozen=True)
class OffersRequest:
    """One task on one machine."""

    task: Task = Task("j-p1", "j", TaskKind.PROBE, "command", "python train.py")
    deployment: Deployment = Deployment(Offer("c", InstanceType("m", vcpus=1), 1.0, 1), 1)


@pytest.mark.parametrize("ahead", [0.0, 3600.0, -3600.0])
def test_steps_are_seen_when_they_were_made_whatever_the_machines_clock_says(ahead: float, tmp_path: Path) -> None:
    folder = TaskFolder(tmp_path)
    folder.progress.mkdir()
    lines = [
        {"t": STARTED_AT + ahead + seconds, "steps": seconds, "samples": 10 * seconds, "process": "1"}
        for seconds in (5, 6, 7)
    ]
    (folder.progress / "rank-0.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    follower = Follower(OffersRequest(), folder, STARTED_AT, ahead)
    assert [point.seconds for point in follower.progress().points] == pytest.approx([5, 6, 7])
    assert follower.trained_at(STARTED_AT + ahead + 6.5).samples == pytest.approx(60)
