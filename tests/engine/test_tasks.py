"""What a cloud is asked to run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mlcd.clouds.checkpoints import commit
from mlcd.core.job import Job, Work
from mlcd.core.machines import Deployment, InstanceType, Offer
from mlcd.core.records import TaskRecord
from mlcd.core.task import TaskKind
from mlcd.engine.tasks import carried_samples, checkpoint_folder, probe_task, training_task
from mlcd.platforms.environment import contract
from mlcd.worker.counts import Counts
from mlcd.worker.environment import Environment
from mlcd.worker.stop import Stop

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


@pytest.mark.parametrize("samples", [1000.0, 1016.0, 1016.7])
def test_a_program_with_all_its_work_in_a_checkpoint_is_started_to_end_without_a_step(
    folder: Path, samples: float
) -> None:
    trained(folder, samples)
    for task in (
        training_task(JOB, RECORD, folder, 1000.0, carried_samples(folder), float("inf")),
        probe_task(JOB, replace(RECORD, carries=True), folder, 10.0, 100.0),
    ):
        env = contract(task)
        assert (task.samples, task.all_trained) == (0.0, True)
        assert 0 < int(env["MLCD_WORK_SAMPLES"]) <= samples
        worker = Environment(task_id="job-t1", work_samples=float(env["MLCD_WORK_SAMPLES"]))
        stop = Stop(worker, Counts())
        stop.samples_before = samples  # as the checkpoint tells it to `mlcd.last_checkpoint`
        assert stop.due()


def test_work_that_nobody_knows_ends_with_the_program(folder: Path) -> None:
    task = training_task(JOB, RECORD, folder, 0.0, carried_samples(folder), float("inf"))
    assert (task.samples, task.all_trained) == (0.0, False)
    assert contract(task)["MLCD_WORK_SAMPLES"] == "0"
