"""When two jobs are of the same program."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from mlcd.core.job import Direction, Job, Target, Work
from mlcd.core.records import JobRecord
from mlcd.core.run import JobState
from mlcd.engine.programs import digest_of, fingerprint, likeness, same_program, similar_program

JOB = Job("j", "python train.py", workdir="/a/code", envs={"MODEL": "small"})


def record(code: str = "1234", job: Job = JOB, owner: str = "", **options: str) -> JobRecord:
    return JobRecord("j", job, JobState.PLANNED, 0.0, "local", dict(options), owner, code=code)


def test_the_same_code_elsewhere_is_the_same_program() -> None:
    elsewhere = replace(JOB, workdir="/b/code")
    assert same_program(record(), record(job=elsewhere))
    assert not same_program(record(), record(code="5678", job=elsewhere))
    assert not same_program(record(code=""), record(code="", job=elsewhere))


def test_a_folder_whose_files_changed_is_the_same_program_and_says_so() -> None:
    assert same_program(record(), record(code="5678"))
    assert "changed since" in likeness(record(), record(code="5678"))
    assert likeness(record(), record()) == "the same program"


def test_another_command_variable_owner_or_recording_is_another_program() -> None:
    assert not same_program(record(), record(job=replace(JOB, run="python other.py")))
    assert not same_program(record(), record(job=replace(JOB, envs={"MODEL": "large"})))
    assert not same_program(record(), record(job=replace(JOB, file_mounts={"data": "/large"})))
    assert not same_program(record(), record(owner="ann"))
    assert not same_program(record(workload="bert"), record(workload="ncf"))


def test_the_same_script_with_other_arguments_or_variables_is_a_similar_program() -> None:
    assert similar_program(record(), record(job=replace(JOB, run="python train.py --lr 0.1")))
    assert similar_program(record(), record(job=replace(JOB, envs={"MODEL": "large"})))
    assert not similar_program(record(), record(job=replace(JOB, run="python other.py")))
    assert not similar_program(record(), record(job=replace(JOB, file_mounts={"data": "/large"})))
    assert not similar_program(record(), record(owner="ann"))
    assert not similar_program(record(), record(code="5678", job=replace(JOB, workdir="/b/code")))


def test_the_same_training_has_the_same_target_too() -> None:
    until = replace(JOB, work=Work(1000.0, until=Target("loss", 0.5, Direction.DOWN)))
    further = replace(JOB, work=Work(1000.0, until=Target("loss", 0.4, Direction.DOWN)))
    longer = replace(until, work=replace(until.work or Work(0.0), samples=2000.0))
    assert fingerprint(record(job=until)) == fingerprint(record(job=longer))
    assert fingerprint(record(job=until)) != fingerprint(record(job=further))
    assert fingerprint(record(job=until)) != fingerprint(record(code="5678", job=until))


def test_the_digest_is_of_names_and_contents(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        (folder / "part").mkdir(parents=True)
        (folder / "train.py").write_text("print(1)")
        (folder / "part" / "data.csv").write_text("1,2")
    (other / ".git").mkdir()
    (other / ".git" / "HEAD").write_text("main")
    assert digest_of(str(one)) == digest_of(str(other))
    (other / "train.py").write_text("print(2)")
    assert digest_of(str(one)) != digest_of(str(other))
    assert digest_of("") == ""
