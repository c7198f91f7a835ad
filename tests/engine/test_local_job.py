"""A job from mapping to model on this computer, and what can go wrong with it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from mlcd.api import Client
from mlcd.clouds.local.cloud import LocalCloud
from mlcd.core.run import AttemptEnd, JobState
from mlcd.core.task import TaskKind
from mlcd.core.trial import Failure, FailureKind
from mlcd.core.view import JobView
from mlcd.engine.context import job_folder
from mlcd.errors import InvalidJobError, NotFoundError, UserError
from small_jobs import PROGRAM, MakeJob

pytestmark = pytest.mark.slow  # each trains


def run(client: Client, job: dict[str, object], **secrets: str) -> JobView:
    """Submit, accept any plan, and be the controller."""
    job_id = client.submit(client.load(job, secrets=secrets))
    client.confirm(job_id)
    return client.drive(job_id)


def test_a_job_is_searched_trained_and_billed(client: Client, make_job: MakeJob) -> None:
    view = run(client, make_job(num_nodes="1..2", work={"samples": 8000}))
    assert view.record.state is JobState.SUCCEEDED, view.record.error
    assert len(view.trials) == 2
    assert json.loads((Path(view.model) / "model.json").read_text())["done"] >= 1000
    assert sum(item.usd for item in view.bill) == pytest.approx(view.spent.usd)
    assert {item.kind for item in view.bill} == {TaskKind.PROBE, TaskKind.TRAINING}
    assert not list(client.sweep())


def test_a_program_that_ends_half_way_is_not_told_as_work_done(client: Client, make_job: MakeJob) -> None:
    half = PROGRAM.replace('os.environ["MLCD_WORK_SAMPLES"])', 'os.environ["MLCD_WORK_SAMPLES"]) // 2')
    view = run(client, make_job(half, work={"samples": 8000}))
    assert view.record.state is JobState.SUCCEEDED, view.record.error
    (attempt,) = view.run.attempts
    assert "ended by itself after" in attempt.why
    told = [event.message for event in client.events(view.record.id) if event.kind == "attempt"]
    assert "of 8,000 samples" in told[-1]
    assert "work done" not in told[-1]


def test_what_the_cloud_notes_on_the_way_is_told_once(
    client: Client, make_job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    status, note = LocalCloud.status, "lost: rank 1 (killed); going on from 000003-960"
    noted = lambda cloud, handle: replace(status(cloud, handle), notes=(note,))  # noqa: E731
    monkeypatch.setattr(LocalCloud, "status", noted)
    view = run(client, make_job(work={"samples": 8000}))
    told = [event.kind for event in client.events(view.record.id) if event.message == note]
    assert told == ["warning"]


def test_the_log_of_a_node_that_is_not_there_is_refused(client: Client, make_job: MakeJob) -> None:
    view = run(client, make_job())
    assert list(client.logs(view.record.id))[-1].startswith("trained")
    for read in (client.logs, client.log_page):
        with pytest.raises(NotFoundError, match="has no node 7") as refused:
            list(read(view.record.id, node=7))  # type: ignore[call-overload]
        assert "ask for 0" in refused.value.hint


def test_the_report_can_be_written(client: Client, make_job: MakeJob, tmp_path: Path) -> None:
    view = run(client, make_job())
    page = client.report(view.record.id, tmp_path / "report.html").read_text()
    assert view.record.id in page
    assert "model.json" in page or view.model in page


def test_a_program_that_exits_3_fails_the_job_with_the_end_of_its_log(client: Client, make_job: MakeJob) -> None:
    view = run(client, make_job("print('no data here')\nraise SystemExit(3)", num_nodes="1..2"))
    assert view.record.state is JobState.FAILED
    assert view.record.exit_code == 100
    assert "no data here" in view.record.error
    assert all(isinstance(t.outcome, Failure) and t.outcome.exit_code == 3 for t in view.trials)
    assert all(trial.usd > 0 for trial in view.trials)


def test_a_program_that_runs_out_of_memory_everywhere_failed_and_not_its_goal(
    client: Client, make_job: MakeJob
) -> None:
    view = run(client, make_job("raise MemoryError", num_nodes="1..2"))
    assert view.record.state is JobState.FAILED
    assert view.record.exit_code == 100
    assert "ran out of memory on each of the 2 deployments" in view.record.error
    assert "accumulate" in view.record.error
    assert "nearest" not in view.record.error


def test_a_program_that_was_mended_is_tried_again(client: Client, make_job: MakeJob) -> None:
    view = run(client, make_job("raise SystemExit(3)"))
    assert "crashed on the deployment tried" in view.record.error
    make_job(PROGRAM)
    client.resume(view.record.id)
    view = list(client.follow(view.record.id))[-1]
    assert view.record.state is JobState.SUCCEEDED, view.record.error
    assert [trial.failure is None for trial in view.trials] == [False, True]
    assert len({item.task_id for item in view.bill}) == 3


def test_a_program_that_never_reports_is_told_how_to(client: Client, make_job: MakeJob) -> None:
    view = run(client, make_job("import time\ntime.sleep(60)", probe={"silent_seconds": 1}))
    assert view.record.state is JobState.FAILED
    assert isinstance(view.trials[0].outcome, Failure)
    assert view.trials[0].outcome.reason is FailureKind.SILENT
    assert "mlcd.steps" in view.record.error


def test_a_budget_that_is_too_small_ends_before_it_is_passed(client: Client, make_job: MakeJob) -> None:
    view = run(client, make_job(budget=0.0015, work={"samples": 200000}))
    assert view.record.state is JobState.FAILED
    assert view.record.exit_code == 106
    assert "budget of" in view.record.error
    assert view.spent.usd <= 0.0015


def test_a_run_halts_with_a_checkpoint_before_the_budget_is_passed_and_goes_on_with_more(
    client: Client, make_job: MakeJob
) -> None:
    slower = PROGRAM.replace("time.sleep(0.02)", "time.sleep(0.3 if '-t1' in os.environ['MLCD_TASK_ID'] else 0.02)")
    view = run(client, make_job(slower, budget=0.006, work={"samples": 4000}))
    assert view.record.state is JobState.PAUSED, view.record.error
    assert view.record.exit_code == 104
    assert view.spent.usd <= 0.006
    assert "mlcd resume" in view.record.error
    client.resume(view.record.id, budget_usd=0.05)
    view = list(client.follow(view.record.id))[-1]
    assert view.record.state is JobState.SUCCEEDED, view.record.error
    assert view.run.attempts[-1].samples_before > 0
    assert view.spent.usd <= 0.05


def test_a_training_that_fails_once_goes_on_from_its_checkpoint(client: Client, make_job: MakeJob) -> None:
    fails = (
        "import os, pathlib\n"
        "mark = pathlib.Path(os.environ['MARK'])\n"
        "first = '-t' in os.environ['MLCD_TASK_ID'] and not mark.exists()\n"
    )
    crash = PROGRAM.replace(
        "    if number % 25 == 24:",
        "    if first and number == 60: mark.write_text(''); os._exit(7)\n    if number % 25 == 24:",
    )
    job = make_job(fails + crash, checkpoint={"grace_seconds": 2, "carry": False})
    job["envs"] = {"MARK": str(Path(str(job["workdir"])).parent / "mark")}
    view = run(client, job)
    assert view.record.state is JobState.SUCCEEDED, view.record.error
    assert [attempt.end for attempt in view.run.attempts] == [AttemptEnd.FAILED, AttemptEnd.FINISHED]
    assert view.run.attempts[1].samples_before == 500


FAILS_AT_EXIT = "\nif '-t' in os.environ['MLCD_TASK_ID']: raise SystemExit(1)\n"
CARRY_NOTHING = {"grace_seconds": 2, "carry": False}


def test_a_program_that_only_fails_at_its_exit_is_not_started_again(client: Client, make_job: MakeJob) -> None:
    view = run(client, make_job(PROGRAM + FAILS_AT_EXIT, checkpoint=CARRY_NOTHING))
    assert view.record.state is JobState.SUCCEEDED, view.record.error
    assert [attempt.end for attempt in view.run.attempts] == [AttemptEnd.FINISHED]
    assert "then the program failed" in view.run.attempts[0].why
    assert view.run.samples == 2000
    assert json.loads((Path(view.model) / "model.json").read_text())["done"] == 2000
    told = [event.message for event in client.events(view.record.id) if event.kind == "warning"]
    assert any("Nothing is trained again" in message for message in told)


def test_the_checkpoint_is_the_model_of_a_program_that_fails_before_it_hands_anything_back(
    client: Client, make_job: MakeJob
) -> None:
    before_outputs = PROGRAM.replace("(os.path.exists(", FAILS_AT_EXIT + "(os.path.exists(")
    view = run(client, make_job(before_outputs, checkpoint=CARRY_NOTHING))
    assert view.record.state is JobState.SUCCEEDED, view.record.error
    assert [attempt.end for attempt in view.run.attempts] == [AttemptEnd.FINISHED]
    assert json.loads((Path(view.model) / "state.json").read_text())["done"] == 2000


def test_outputs_that_the_job_names_are_worth_a_start_without_a_step(
    client: Client, make_job: MakeJob, tmp_path: Path
) -> None:
    once = "\nif '-t1' in os.environ['MLCD_TASK_ID']: raise SystemExit(1)\n"
    before_outputs = PROGRAM.replace("(os.path.exists(", once + "(os.path.exists(")
    writes = before_outputs + "open('weights.txt', 'w').write(str(done))\n"
    view = run(client, make_job(writes, checkpoint=CARRY_NOTHING, outputs=["weights.txt"]))
    assert view.record.state is JobState.SUCCEEDED, view.record.error
    assert [attempt.end for attempt in view.run.attempts] == [AttemptEnd.FAILED, AttemptEnd.FINISHED]
    assert (view.run.attempts[1].samples_before, view.run.attempts[1].samples) == (2000, 0)
    assert (Path(view.model) / "weights.txt").read_text() == "2000"


@pytest.mark.parametrize(
    "left_behind",
    ["open(out + '/weights.npy', 'wb').write(whole[:100])", "open(out + '/other.txt', 'w').write('x')"],
)
def test_a_model_that_was_cut_off_at_a_failed_exit_is_made_again_without_a_step(
    left_behind: str, client: Client, make_job: MakeJob
) -> None:
    ends = f"""
import io, numpy
buffer = io.BytesIO(); numpy.save(buffer, numpy.zeros(1000)); whole, out = buffer.getvalue(), os.environ['MLCD_OUTPUT_DIR']
if '-t1' in os.environ['MLCD_TASK_ID']:
    {left_behind}
    raise SystemExit(1)
open(out + '/weights.npy', 'wb').write(whole)
"""
    view = run(client, make_job(PROGRAM + ends, checkpoint=CARRY_NOTHING, outputs=["weights.npy"]))
    assert view.record.state is JobState.SUCCEEDED, view.record.error
    assert [attempt.end for attempt in view.run.attempts] == [AttemptEnd.FAILED, AttemptEnd.FINISHED]
    assert view.run.attempts[1].samples == 0
    assert len((Path(view.model) / "weights.npy").read_bytes()) > 8000


def test_a_crash_that_comes_again_at_the_same_step_is_not_paid_for_a_third_time(
    client: Client, make_job: MakeJob
) -> None:
    crash = PROGRAM.replace(
        "    if number % 25 == 24:",
        "    if '-t' in os.environ['MLCD_TASK_ID'] and number == 20: raise ValueError('bad shard')\n"
        "    if number % 25 == 24:",
    )
    view = run(client, make_job(crash, checkpoint={"grace_seconds": 2, "carry": False}))
    assert view.record.state is JobState.FAILED
    assert [attempt.end for attempt in view.run.attempts] == [AttemptEnd.FAILED] * 2
    assert "goes on from the beginning" in view.record.error
    assert "bad shard" in view.record.error


def test_a_program_that_goes_on_beyond_its_work_is_told_of(client: Client, make_job: MakeJob) -> None:
    endless = """
    import time, mlcd
    for done in range(10, 2000, 10):
        time.sleep(0.02)
        mlcd.report(step=done / 10, samples=done)
    """
    view = run(client, make_job(endless, work={"samples": 500}, checkpoint={"carry": False}))
    assert view.record.state is JobState.SUCCEEDED, view.record.error
    told = [event.message for event in client.store.events(view.record.id) if "Is `work` right?" in event.message]
    assert len(told) == 1
    assert "after 500 samples" in told[0]


def test_what_a_probe_trains_is_not_trained_again(client: Client, make_job: MakeJob) -> None:
    view = run(client, make_job(work={"samples": 4000}))
    assert view.record.state is JobState.SUCCEEDED, view.record.error
    assert view.run.attempts[0].samples_before > 0
    assert json.loads((Path(view.model) / "model.json").read_text())["done"] == 4000


def test_a_probe_that_does_all_the_work_is_the_training(client: Client, make_job: MakeJob) -> None:
    probe = {"warmup_seconds": 0.2, "min_seconds": 60, "max_seconds": 60, "silent_seconds": 60}
    view = run(client, make_job(num_nodes="1..2", work={"samples": 500}, probe=probe))
    assert view.record.state is JobState.SUCCEEDED, view.record.error
    assert {item.kind for item in view.bill} == {TaskKind.PROBE}
    assert len(view.trials) == 1
    (attempt,) = view.run.attempts
    assert "did all the work" in attempt.why
    assert json.loads((Path(view.model) / "model.json").read_text())["done"] == 500


def test_a_training_that_turns_slow_moves_to_a_better_deployment(client: Client, make_job: MakeJob) -> None:
    slower = PROGRAM.replace(
        "time.sleep(0.02)", "time.sleep(0.5 if os.environ['MLCD_TASK_ID'].endswith('-t1') else 0.02)"
    )
    view = run(client, make_job(slower, resources={}, work={"samples": 6000}))
    assert view.record.state is JobState.SUCCEEDED, view.record.error
    first, second = view.run.attempts
    assert first.end is AttemptEnd.MOVED
    assert second.deployment != first.deployment
    assert second.samples_before == first.samples_before + first.samples
    assert any(event.kind == "decision" for event in client.events(view.record.id))
    assert json.loads((Path(view.model) / "model.json").read_text())["done"] == 6000


def test_a_training_whose_model_could_not_be_handed_over_is_not_trained_again(
    client: Client, make_job: MakeJob
) -> None:
    job_id = client.submit(client.load(make_job()))
    in_the_way = job_folder(client.settings, job_id) / "model.new"
    in_the_way.write_text("a file where the folder is to be")
    client.confirm(job_id)
    view = client.drive(job_id)
    assert view.record.state is JobState.FAILED
    assert "model.new" in view.record.error
    assert f"mlcd resume {job_id}" in view.record.error
    in_the_way.unlink()
    client.resume(job_id)
    view = list(client.follow(job_id))[-1]
    assert view.record.state is JobState.SUCCEEDED, view.record.error
    assert len(view.run.attempts) == 1
    assert (Path(view.model) / "model.json").is_file()


def test_the_user_can_move_a_training(client: Client, make_job: MakeJob) -> None:
    job_id = client.submit(client.load(make_job(resources={}, work={"samples": 6000}, search="random")))
    client.confirm(job_id)
    client.start(job_id)
    for view in client.follow(job_id):
        if view.run.attempts and view.run.attempts[-1].samples > 200:
            there = view.run.attempts[-1].deployment.offer.instance.name
            with pytest.raises(UserError, match="already"):
                client.move(job_id, instance=there)
            client.move(job_id, instance="local-2c" if there == "local-1c" else "local-1c")
            break
    view = list(client.follow(job_id))[-1]
    assert view.record.state is JobState.SUCCEEDED, view.record.error
    assert [attempt.end for attempt in view.run.attempts] == [AttemptEnd.MOVED, AttemptEnd.FINISHED]
    told = [event.data["seconds"] for event in client.events(job_id) if "The move took" in event.message]
    assert len(told) == 1
    assert 0 < told[0] < 60
    assert json.loads((Path(view.model) / "model.json").read_text())["done"] == 6000
    with pytest.raises(UserError, match="only a training"):
        client.move(job_id, nodes=2)


def test_stopping_keeps_a_checkpoint_and_resume_goes_on(client: Client, make_job: MakeJob) -> None:
    job_id = client.submit(client.load(make_job(work={"samples": 3000})))
    client.confirm(job_id)
    client.start(job_id)
    for view in client.follow(job_id):
        if view.run.attempts and view.run.attempts[-1].samples > 400:
            client.stop(job_id)
            break
    view = list(client.follow(job_id))[-1]
    assert view.record.state is JobState.STOPPED
    assert view.record.exit_code == 103
    client.resume(job_id)
    view = list(client.follow(job_id))[-1]
    assert view.record.state is JobState.SUCCEEDED, view.record.error
    assert view.run.attempts[-1].samples_before >= 400


def test_the_work_is_done_once_the_target_is_reached(client: Client, make_job: MakeJob) -> None:
    until = {"samples": 100000, "until": {"metric": "loss", "value": 0.002}}
    view = run(client, make_job(work=until))
    assert view.record.state is JobState.SUCCEEDED, view.record.error
    assert 500 <= view.run.samples < 5000


def test_secrets_reach_the_program_and_nothing_else(client: Client, make_job: MakeJob, tmp_path: Path) -> None:
    job = make_job(PROGRAM + "\nprint('token is', os.environ['TOKEN'])\n")
    job["secrets"] = {"TOKEN": None}
    view = run(client, job, TOKEN="hunter2-very-secret")
    assert view.record.state is JobState.SUCCEEDED, view.record.error
    assert "token is <TOKEN>" in list(client.logs(view.record.id))[-1]
    client.report(view.record.id, tmp_path / "home" / "report.html")
    leaks = [
        file
        for file in (tmp_path / "home").rglob("*")
        if file.is_file() and b"hunter2-very-secret" in file.read_bytes()
    ]
    assert not leaks


def test_a_job_that_does_not_say_how_much_is_refused_and_nothing_is_stored(client: Client, make_job: MakeJob) -> None:
    job = make_job()
    del job["work"]
    with pytest.raises(InvalidJobError, match="how much"):
        client.submit(client.load(job))
    assert client.views() == []
