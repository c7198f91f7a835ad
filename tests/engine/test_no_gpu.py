"""A program that needs a GPU: no other machine without one is paid for."""

from __future__ import annotations

import pytest

from mlcd.api import Client
from mlcd.core.machines import Deployment, InstanceType, Offer
from mlcd.core.run import JobState
from mlcd.core.trial import Failure, FailureKind, Trial
from mlcd.engine.failures import refuse_broken_program, trials_that_count
from mlcd.errors import TaskFailedError
from small_jobs import MakeJob

HARD_CODED = 'raise RuntimeError("No CUDA GPUs are available")\n'


def test_where_no_machine_has_one_the_job_ends_after_the_first_probe(client: Client, make_job: MakeJob) -> None:
    job_id = client.submit(client.load(make_job(HARD_CODED, num_nodes="1..2", resources={})))
    view = client.drive(job_id)
    assert view.record.state is JobState.FAILED
    assert [trial.failure.reason for trial in view.trials if trial.failure] == [FailureKind.NO_GPU]
    assert "found no GPU" in view.record.error
    assert "accelerators" in view.record.error


def test_machines_without_one_are_no_reason_to_give_up_where_others_have_one() -> None:
    trials = (_without_gpu("small"), _without_gpu("large"))
    refuse_broken_program(trials, (*(trial.deployment for trial in trials), _deployment("big", gpus=1)))


def test_a_gpu_that_is_not_found_where_there_is_one_is_the_programs_fault() -> None:
    trials = tuple(_without_gpu(name, gpus=1) for name in ("one", "two"))
    space = [trial.deployment for trial in trials]
    refuse_broken_program(trials[:1], space)
    with pytest.raises(TaskFailedError, match="found no GPU"):
        refuse_broken_program(trials, space)


def test_a_fix_of_the_program_forgives_it() -> None:
    assert trials_that_count((_without_gpu("small"),), fixes=1) == ()


def _without_gpu(name: str, gpus: int = 0) -> Trial:
    return Trial(_deployment(name, gpus), Failure(FailureKind.NO_GPU, "needs a GPU"), 5.0, 0.01)


def _deployment(name: str, gpus: int = 0) -> Deployment:
    return Deployment(Offer("test", InstanceType(name, gpus=gpus), 1.0, 4), 1)
