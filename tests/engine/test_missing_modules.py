"""A failed import is reported at once, with what to change; other errors are not taken for one."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlcd.api import Client
from mlcd.core.run import AttemptEnd, JobState
from mlcd.engine.missing_modules import import_error, refuse_missing_module
from mlcd.errors import TaskFailedError
from small_jobs import PROGRAM, MakeJob

TRACE = """Traceback (most recent call last):
  File "train.py", line 1, in <module>
    import torch
ModuleNotFoundError: No module named 'torch'
"""


def test_the_setting_of_the_cloud_and_the_setup_are_named() -> None:
    with pytest.raises(TaskFailedError, match="No module named 'torch'") as caught:
        refuse_missing_module(TRACE, "ec2")
    assert "`ec2.python`" in caught.value.hint
    assert "`setup: pip install torch`" in caught.value.hint
    with pytest.raises(TaskFailedError) as caught:
        refuse_missing_module(TRACE, "local")
    assert "the setting" not in caught.value.hint


@pytest.mark.parametrize(
    ("tail", "told"),
    [
        (TRACE, "No module named 'torch'"),
        (f"{TRACE}torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n", "No module named 'torch'"),
        ("[rank0]: ImportError: libcudnn.so.9: cannot open shared object file", "libcudnn.so.9: cannot open shared object file"),
        (f"{TRACE}using NumPy instead\nValueError: shapes (2,) and (3,) differ", ""),
        ("loss 0.3\nKilled", ""),
        ("", ""),
    ],
)  # fmt: skip
def test_only_an_import_that_was_the_end_counts(tail: str, told: str) -> None:
    assert import_error(tail) == told


def test_a_missing_module_is_paid_for_once(client: Client, make_job: MakeJob) -> None:
    job_id = client.submit(client.load(make_job("import no_such_thing\n", num_nodes="1..2", resources={})))
    view = client.drive(job_id)
    assert view.record.state is JobState.FAILED
    assert view.record.exit_code == TaskFailedError.exit_code
    assert "No module named 'no_such_thing'" in view.record.error
    assert "setup: pip install no_such_thing" in view.record.error
    assert len(view.trials) == 1


@pytest.mark.slow
def test_a_training_that_cannot_import_is_not_started_again(client: Client, make_job: MakeJob, tmp_path: Path) -> None:
    once = f"""
import pathlib
probed = pathlib.Path({str(tmp_path / "probed")!r})
if probed.exists():
    import no_such_thing
probed.touch()
"""
    job_id = client.submit(client.load(make_job(once + PROGRAM, work={"samples": 20000})))
    client.confirm(job_id)
    view = client.drive(job_id)
    assert view.record.state is JobState.FAILED
    assert "No module named 'no_such_thing'" in view.record.error
    assert [attempt.end for attempt in view.run.attempts] == [AttemptEnd.FAILED]
