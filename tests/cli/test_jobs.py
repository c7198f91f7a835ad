"""status, logs, stop, resume and report."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import stories
from cli.fake_client import Command, FakeClient
from mlcd.core.run import JobState
from mlcd.core.trial import Failure, FailureKind, Trial
from mlcd.core.view import JobView

VIEWS = [stories.searching(), stories.planned(), stories.training(), stories.succeeded()]


def test_status_lists_all_jobs(mlcd: Command) -> None:
    done = mlcd("status", client=FakeClient())
    assert done.code == 0
    assert [word in done.out for word in ("training", "50%", "succeeded", "searching")] == [True] * 4
    assert len(mlcd("status", "--json", client=FakeClient()).data) == 3


def test_status_without_jobs_says_how_to_start_one(mlcd: Command) -> None:
    assert "mlcd run" in mlcd("status", client=FakeClient(acts=[])).out


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: str(view.record.state))
def test_status_of_one_job_fits_80_columns(mlcd: Command, view: JobView) -> None:
    done = mlcd("status", "j-7f3a", client=FakeClient(current=view))
    assert done.code == 0
    assert max(len(line) for line in done.out.splitlines()) <= 80
    assert "as fast as possible, within 4h 00m, for at most $60.00" in done.out


def test_status_tells_how_the_training_goes(mlcd: Command) -> None:
    out = mlcd("status", "j-7f3a", client=FakeClient(current=stories.training())).out
    assert "50.0%" in out
    assert "20m 50s left" in out
    assert "loss 1.234" in out
    assert "In all: 2h 13m of 4h 00m, $22.43 of $60.00" in out


def test_status_of_a_job_that_was_written_down_and_no_more_says_how_to_start_it(mlcd: Command) -> None:
    view = stories.searching()
    written = replace(view, record=replace(view.record, started=False), controlled=False)
    out = mlcd("status", "j-7f3a", client=FakeClient(current=written)).out
    assert "searching (not started)" in out
    assert "mlcd resume j-7f3a   start it" in out


def test_of_two_trials_of_the_chosen_deployment_the_measured_one_is_marked(mlcd: Command) -> None:
    view = stories.planned()
    assert view.record.plan is not None
    lost = Trial(view.record.plan.deployment, Failure(FailureKind.LOST, "gone"), seconds=1.0, usd=0.1)
    out = mlcd("status", "j-7f3a", client=FakeClient(current=replace(view, trials=(lost, *view.trials)))).out
    assert out.count("▶") == 1
    assert "▶1 " not in out


def test_status_exits_with_the_state_when_asked(mlcd: Command) -> None:
    assert mlcd("status", "j-7f3a", "--exit-code", client=FakeClient()).code == 101
    assert mlcd("status", "j-7f3a", "--exit-code", client=FakeClient(current=stories.succeeded())).code == 0


def test_an_unknown_job_is_not_found(mlcd: Command) -> None:
    done = mlcd("status", "j-8", client=FakeClient())
    assert done.code == 102
    assert done.err == "Error: No job is called 'j-8'.\nDid you mean 'j-7f3a'?\n"


def test_logs_come_line_by_line(mlcd: Command) -> None:
    client = FakeClient(lines=("a [red]b", "c"))
    assert mlcd("logs", "j-7f3a", "-f", "--node", "2", "--task", "t1", client=client).out == "a [red]b\nc\n"
    assert client.asked("logs") == {"follow": True, "node": 2, "task": "t1"}
    done = mlcd("logs", "j-7f3a", "--json", client=client)
    assert [json.loads(line) for line in done.out.splitlines()] == [{"line": "a [red]b"}, {"line": "c"}]


def test_stop_waits_until_the_job_rests(mlcd: Command) -> None:
    client = FakeClient(acts=[[stories.training(), stories.succeeded()]])
    done = mlcd("stop", "j-7f3a", client=client)
    assert (done.code, client.names()) == (0, ["view", "stop", "follow"])
    assert "succeeded" in done.out


def test_stop_may_return_at_once(mlcd: Command) -> None:
    client = FakeClient()
    assert mlcd("stop", "j-7f3a", "--no-wait", "--json", client=client).data["record"]["id"] == "j-7f3a"
    assert client.names() == ["view", "stop"]


def test_stop_says_first_what_is_lost_and_asks(mlcd: Command, someone_answers: Callable[[str], None]) -> None:
    client = FakeClient(current=stories.training())
    someone_answers("n\n")
    refused = mlcd("stop", "j-7f3a", client=client)
    assert (refused.code, client.names()) == (0, ["view"])
    assert "There is no checkpoint: all 3,000,000 samples are lost" in " ".join(refused.err.split())
    someone_answers("y\n")
    mlcd("stop", "j-7f3a", "--no-wait", client=client)
    assert client.names() == ["view", "view", "stop"]


def test_stop_does_not_ask_where_nobody_answers_or_with_yes(
    mlcd: Command, someone_answers: Callable[[str], None]
) -> None:
    saved = replace(stories.training(), saved_samples=2_000_000.0)
    alone = mlcd("stop", "j-7f3a", "--no-wait", client=FakeClient(current=saved))
    assert "1,000,000 more are lost, unless the program saves" in " ".join(alone.err.split())
    someone_answers("")
    client = FakeClient(current=saved)
    assert mlcd("stop", "j-7f3a", "--yes", "--no-wait", client=client).code == 0
    assert client.names() == ["view", "stop"]


def test_move_says_first_what_is_lost_and_asks(mlcd: Command, someone_answers: Callable[[str], None]) -> None:
    client = FakeClient(current=stories.training())
    someone_answers("n\n")
    refused = mlcd("move", "j-7f3a", "--nodes", "2", client=client)
    assert (refused.code, client.names()) == (0, ["view"])
    assert "There is no checkpoint: all 3,000,000 samples are lost" in " ".join(refused.err.split())
    someone_answers("y\n")
    mlcd("move", "j-7f3a", "--nodes", "2", client=client)
    assert client.names() == ["view", "view", "move"]
    assert client.asked("move") == {"instance": None, "nodes": 2, "batch_size": None}


def test_move_does_not_ask_with_yes_or_where_nobody_answers_or_nothing_is_lost(
    mlcd: Command, someone_answers: Callable[[str], None]
) -> None:
    alone = mlcd("move", "j-7f3a", "--json", client=FakeClient(current=stories.training()))
    assert "samples are lost" in " ".join(alone.err.split())
    assert alone.data["record"]["id"] == "j-7f3a"
    someone_answers("")
    saved = replace(stories.training(), saved_samples=3_000_000.0)
    for view, options in ((stories.training(), ["--yes"]), (saved, []), (stories.searching(), [])):
        client = FakeClient(current=view)
        assert mlcd("move", "j-7f3a", *options, client=client).code == 0
        assert client.names() == ["view", "move"]


def test_after_a_stop_it_is_said_where_resume_begins(mlcd: Command) -> None:
    stopped = replace(stories.training(), record=stories.record(JobState.STOPPED), live=None)
    words = " ".join(mlcd("status", "j-7f3a", client=FakeClient(current=stopped)).out.split())
    assert "go on from nothing: there is no checkpoint" in words
    saved = replace(stopped, saved_samples=2_000_000.0)
    words = " ".join(mlcd("status", "j-7f3a", client=FakeClient(current=saved)).out.split())
    assert "go on from 2,000,000 samples, its newest checkpoint" in words
    assert "Saved 2,000,000 samples in the newest checkpoint" in words


def test_a_job_without_a_controller_says_so(mlcd: Command) -> None:
    alone = replace(stories.training(), controlled=False)
    assert "No controller is running for this job" in mlcd("status", "j-7f3a", client=FakeClient(current=alone)).out


def test_all_probes_at_work_are_shown(mlcd: Command) -> None:
    view = stories.searching()
    assert view.live is not None
    other = replace(view.live, task_id="p5", deployment=stories.deployment(2, 8), usd=1.5)
    both = replace(view, running=(view.live, other))
    words = " ".join(mlcd("status", "j-7f3a", client=FakeClient(current=both)).out.split())
    assert "Trying 6 × p2.xlarge" in words
    assert "Trying 8 × p3.2xlarge" in words
    assert words.count("so far") == 1


def test_resume_takes_new_limits_and_accepts_the_plan(mlcd: Command) -> None:
    client = FakeClient(acts=[[stories.training(), stories.succeeded()]], current=stories.planned())
    done = mlcd("resume", "j-7f3a", "--yes", "--budget", "30", "--deadline", "2h", client=client)
    assert done.code == 0
    assert client.asked("resume") == {"budget_usd": 30.0, "deadline": "2h"}
    assert client.names() == ["resume", "confirm", "follow"]


def test_resume_tells_only_what_is_new(mlcd: Command) -> None:
    client = FakeClient(acts=[[stories.training()] * 9], current=stories.planned())
    out = mlcd("resume", "j-7f3a", "--yes", client=client).out
    assert "Trial 3" not in out
    assert "Chosen    4 × p3.2xlarge" in out


def test_resume_does_not_tell_a_plan_again_that_was_accepted_before(mlcd: Command) -> None:
    at_work = replace(stories.training(), record=replace(stories.training().record, confirmed=True, budget_usd=90.0))
    out = mlcd("resume", "j-7f3a", "--budget", "90", client=FakeClient(acts=[[at_work] * 9], current=at_work)).out
    assert "Chosen" not in out


def test_a_plan_of_other_limits_says_that_its_reason_is_of_then(mlcd: Command) -> None:
    view = stories.planned()
    assert "Planned for other limits" not in mlcd("status", "j-7f3a", client=FakeClient(current=view)).out
    raised = replace(view, goal=replace(view.goal, budget_usd=90.0))
    assert "Planned for other limits: The fastest" in mlcd("status", "j-7f3a", client=FakeClient(current=raised)).out


def test_a_plan_with_servers_of_another_type_has_a_price_for_each_type(mlcd: Command) -> None:
    shown = " ".join(mlcd("status", "j-7f3a", client=FakeClient(current=stories.served(stories.planned()))).out.split())
    assert "Chosen 2 × p3.2xlarge + 2 × c5n.large serving, batch 256, $6.34/h" in shown
    assert "Prices 2 × p3.2xlarge at $6.12/h, 2 × c5n.large serving at $0.2200/h" in shown
    data = mlcd("status", "j-7f3a", "--json", client=FakeClient(current=stories.served(stories.planned()))).data
    chosen = data["record"]["plan"]["deployment"]
    assert (chosen["servers"], chosen["server_offer"]["usd_per_hour"]) == (2, 0.11)


def test_resume_without_yes_leaves_a_plan_waiting(mlcd: Command) -> None:
    client = FakeClient(acts=[[stories.planned()]], current=stories.planned())
    assert mlcd("resume", "j-7f3a", client=client).code == 101
    assert client.names() == ["resume", "follow"]


def test_report_writes_the_page_and_says_where(mlcd: Command, tmp_path: Path) -> None:
    path = tmp_path / "r.html"
    done = mlcd("report", "j-7f3a", "-o", str(path), client=FakeClient(current=stories.succeeded()))
    assert done.out.replace("\n", "") == str(path)
    assert path.read_text().startswith("<!doctype html>")


def test_report_as_json_is_the_story(mlcd: Command) -> None:
    story = mlcd("report", "j-7f3a", "--json", client=FakeClient(current=stories.succeeded())).data
    assert len(story["beliefs"]) == len(stories.TRIALS)
    assert story["view"]["model"] == "/data/jobs/j-7f3a/model"
