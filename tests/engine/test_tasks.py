"""What a cloud is asked to run."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlcd.clouds.checkpoints import commit
from mlcd.core.job import Job, Work
from mlcd.core.machines import Deployment, InstanceType, Offer
from mlcd.core.records import TaskRecord
from mlcd.core.task import TaskKind
from mlcd.engine.tasks import carried_samples, checkpoint_folder, probe_task, training_task

OFFER = Offer("local", InstanceType("m", vcpus=1), usd_per_hour=1.0, max_nodes=4)
RECORD = TaskRecord("job-t1", "job", TaskKind.TRAINING, 1, Deployment(OFFER, 1), "local", 0.0)
JOB = Job(name="job", run="python train.py", work=Work(1000.0))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A job's folder."""
    return tmp_path / "job"


def trained(folder: Path, samples: float) -> None:
    state = folder / "state"
    state.mkdir(parents=True)
    (state / "model.pt").write_text("weights")
    assert commit(state, checkpoint_folder(folder), samples)


def test_a_task_does_what_is_in_no_checkpoint_yet(folder: Path) -> None:
    trained(folder, 400.0)
    task = training_task(JOB, RECORD, folder, 1000.0, carried_samples(folder), float("inf"))
    assert (task.samples_before, task.samples) == (400.0, 600.0)


@pytest.mark.parametrize("samples", [1000.0, 1016.0])
def test_a_program_killed_with_all_its_work_in_a_checkpoint_is_still_told_when_to_end(
    folder: Path, samples: float
) -> None:
    trained(folder, samples)
    for task in (
        training_task(JOB, RECORD, folder, 1000.0, carried_samples(folder), float("inf")),
        probe_task(JOB, RECORD, folder, 10.0, 100.0, carry=True),
    ):
        assert 0 < task.samples <= 1


def test_work_that_nobody_knows_ends_with_the_program(folder: Path) -> None:
    assert training_task(JOB, RECORD, folder, 0.0, carried_samples(folder), float("inf")).samples == 0.0
