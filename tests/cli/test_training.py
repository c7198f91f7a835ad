"""plan and run."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import stories
from cli.fake_client import Command, FakeClient
from mlcd.core.goal import Aim, Goal
from mlcd.core.run import JobState
from mlcd.core.trial import Failure, FailureKind
from mlcd.errors import GoalUnreachableError


def two_acts() -> FakeClient:
    return FakeClient(acts=[[stories.searching(), stories.planned()], [stories.training(), stories.succeeded()]])


def test_plan_shows_what_was_tried_and_what_is_chosen(mlcd: Command) -> None:
    done = mlcd("plan", "job.yaml", client=FakeClient())
    assert done.code == 0
    assert "out of memory" in done.out
    assert "Chosen    4 × p3.2xlarge, batch 256" in done.out
    assert "39m 30s to 42m 21s" in done.out
    assert "mlcd resume j-7f3a --yes" in done.out


def test_plain_output_fits_80_columns_but_for_events_and_has_no_control_characters(mlcd: Command) -> None:
    done = mlcd("plan", "job.yaml", client=FakeClient())
    assert max(len(line) for line in done.out.splitlines()) <= 80
    assert all(char == "\n" or char.isprintable() for char in done.out)


def test_each_event_is_told_once(mlcd: Command) -> None:
    done = mlcd(
        "run",
        "job.yaml",
        "--yes",
        client=FakeClient(acts=[[stories.searching()] * 9 + [stories.succeeded()]]),
    )
    for event in stories.events():
        assert done.out.count(f"  {event.message}\n") == (event.kind != "plan")
    before, after = done.out.split("Chosen    ")  # the plan stands in the place of its event
    assert "Trial 8" in before
    assert "Node 2 was lost" in after


def test_overrides_carry_the_job_file_s_own_keys(mlcd: Command) -> None:
    client = FakeClient()
    given = ["--goal", "cheapest", "--deadline", "6h", "--budget", "12", "--nodes", "1..4"]
    mlcd("plan", "job.yaml", *given, "--search", "random", "--seed", "3", client=client)
    assert client.asked("load")["overrides"] == {
        "goal": "cheapest",
        "deadline": "6h",
        "budget": "12",
        "num_nodes": "1..4",
        "search.strategy": "random",
        "search.seed": 3,
    }


@pytest.mark.parametrize("source", ["builtin:digits", "s3://bucket/numbers", "/far/numbers"])
def test_data_is_mounted_at_data(mlcd: Command, source: str) -> None:
    client = FakeClient()
    mlcd("plan", "job.yaml", "--data", source, client=client)
    assert client.asked("load")["overrides"] == {"file_mounts.data": source}


def test_data_by_a_path_is_seen_from_where_the_command_is_given(
    mlcd: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    client = FakeClient()
    mlcd("plan", "jobs/job.yaml", "--data", "numbers", client=client)
    assert client.asked("load")["overrides"] == {"file_mounts.data": str(tmp_path / "numbers")}


def test_a_trace_means_the_replayed_cloud(mlcd: Command, tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("")
    client = FakeClient()
    mlcd("plan", "job.yaml", "--trace", str(trace), "--workload", "bert", "--noise", "0.05", client=client)
    options = {"trace": str(trace.resolve()), "workload": "bert", "noise": "0.05"}
    assert client.asked("submit") == {"cloud": "replay", "options": options}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--workload", "bert"], "--trace FILE"),
        (["--trace", "nowhere.csv"], "There is no trace nowhere.csv"),
        (["--trace", ".", "--cloud", "local"], "Leave one of them out"),
        (["--secret", "TOKEN=abc"], "does not belong on the command line"),
        (["--env", "SURELY_NOT_SET_HERE"], "no variable 'SURELY_NOT_SET_HERE'"),
    ],
)
def test_options_that_make_no_sense_are_usage_errors(mlcd: Command, arguments: list[str], words: str) -> None:
    client = FakeClient()
    done = mlcd("plan", "job.yaml", *arguments, client=client)
    assert (done.code, done.out) == (2, "")
    assert words in " ".join(done.err.split())
    assert "submit" not in client.names()


def test_variables_and_secrets_come_from_here(mlcd: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hidden")
    monkeypatch.setenv("LR", "0.5")
    client = FakeClient()
    done = mlcd("run", "job.yaml", "-y", "--env", "A=b=c", "--env", "LR", "--secret", "HF_TOKEN", client=client)
    assert client.asked("load")["envs"] == {"A": "b=c", "LR": "0.5"}
    assert client.asked("load")["secrets"] == {"HF_TOKEN": "hidden"}
    assert "hidden" not in done.out + done.err


def test_run_with_yes_confirms_before_it_starts(mlcd: Command) -> None:
    client = FakeClient(acts=[[stories.searching(), stories.training(), stories.succeeded()]])
    done = mlcd("run", "job.yaml", "--yes", client=client)
    assert done.code == 0
    assert client.names() == ["load", "submit", "confirm", "start", "follow"]
    assert "Model     /data/jobs/j-7f3a/model" in done.out
    assert "Forecast  40m 44s, $8.31" in done.out
    assert re.search(r"^total +\$22.97$", done.out, re.MULTILINE)
    assert "mlcd report j-7f3a" in done.out


def test_run_where_nobody_can_be_asked_says_how_to_go_on(mlcd: Command) -> None:
    client = two_acts()
    done = mlcd("run", "job.yaml", client=client)
    assert done.code == 101
    assert "confirm" not in client.names()
    assert "mlcd resume j-7f3a --yes" in done.out


def test_run_asks_and_trains_when_told_so(mlcd: Command, someone_answers: Callable[[str], None]) -> None:
    someone_answers("y\n")
    client = two_acts()
    done = mlcd("run", "job.yaml", client=client)
    assert "Train on 4 × p3.2xlarge, batch 256 for about 40m 44s and $8.31?" in done.out
    assert client.names()[-2:] == ["confirm", "follow"]
    assert done.code == 0
    assert done.out.count("Chosen") == 1


def test_run_does_not_train_when_told_no(mlcd: Command, someone_answers: Callable[[str], None]) -> None:
    someone_answers("n\n")
    client = two_acts()
    assert mlcd("run", "job.yaml", client=client).code == 101
    assert "confirm" not in client.names()


def test_detach_returns_at_once(mlcd: Command) -> None:
    client = FakeClient()
    done = mlcd("run", "job.yaml", "--yes", "--detach", client=client)
    assert (done.code, client.names()[-2:]) == (0, ["start", "view"])
    assert "mlcd status j-7f3a" in done.out


def test_interrupting_detaches_and_does_not_stop(mlcd: Command) -> None:
    client = FakeClient(interrupt=True)
    done = mlcd("run", "job.yaml", "--yes", client=client)
    assert done.code == 130
    assert "still running" in done.err
    assert "mlcd stop j-7f3a" in done.err
    assert "stop" not in client.names()


def test_json_is_the_final_view_and_nothing_else(mlcd: Command) -> None:
    done = mlcd("run", "job.yaml", "--json", client=FakeClient(notices=("ports is not used.",)))
    assert done.code == 101
    assert done.data["record"]["plan"]["deployment"]["nodes"] == 4
    assert "ports is not used." in done.err


def test_json_lines_are_events_and_then_the_view(mlcd: Command) -> None:
    done = mlcd("plan", "job.yaml", "--json-lines", client=FakeClient())
    *events, last = [json.loads(line) for line in done.out.splitlines()]
    assert [event["event"]["number"] for event in events] == [1, 2, 3, 4, 5, 6]
    assert last["view"]["record"]["state"] == "planned"


@pytest.mark.parametrize("command", ["plan", "run"])
def test_explain_tells_why_with_the_plan_and_once(mlcd: Command, command: str) -> None:
    acts = [[stories.searching(), stories.planned(), stories.training(), stories.succeeded()]]
    done = mlcd(command, "job.yaml", "--explain", *(["--yes"] * (command == "run")), client=FakeClient(acts))
    for title in ("Why this deployment", "What was not taken, and why", "What better would take"):
        assert done.out.count(title) == 1
    assert done.out.index("Chosen    ") < done.out.index("Twice as fast") < done.out.index("j-7f3a: succeeded")


def test_without_a_plan_explain_says_how_far_it_came(mlcd: Command) -> None:
    failed = replace(stories.planned(), record=stories.record(JobState.FAILED, error="Too little."))
    done = mlcd("run", "job.yaml", "--yes", "--explain", client=FakeClient(acts=[[failed]]))
    assert done.out.count("No deployment is chosen") == 1


@pytest.mark.parametrize(
    ("state", "recorded", "code"),
    [
        (JobState.FAILED, 106, 106),
        (JobState.FAILED, 0, 100),
        (JobState.PAUSED, 105, 105),
        (JobState.PAUSED, 0, 104),
        (JobState.STOPPED, 0, 103),
    ],
)
def test_the_exit_code_tells_how_the_job_ended(mlcd: Command, state: JobState, recorded: int, code: int) -> None:
    ended = replace(stories.planned(), record=stories.record(state, exit_code=recorded, error="Why it ended."))
    done = mlcd("run", "job.yaml", "--yes", client=FakeClient(acts=[[ended]]))
    assert done.code == code
    assert "Why it ended." in done.out


def test_a_search_in_which_all_fails_shows_the_log(mlcd: Command) -> None:
    record = stories.record(JobState.FAILED, exit_code=100, error="Nothing could be measured.")
    ended = replace(stories.planned(), record=record, trials=(stories.trial(1, 16),))
    done = mlcd("run", "job.yaml", "--yes", client=FakeClient(acts=[[ended]]))
    assert "RuntimeError: CUDA out of memory." in done.out
    assert "mlcd logs j-7f3a" in done.out


def test_a_limit_that_stopped_the_job_is_what_resuming_changes(mlcd: Command) -> None:
    ended = replace(stories.planned(), record=stories.record(JobState.FAILED, exit_code=106, error="Too little."))
    done = mlcd("run", "job.yaml", "--yes", client=FakeClient(acts=[[ended]]))
    assert "mlcd resume j-7f3a --budget USD --deadline TIME   go on with new limits" in done.out


def test_the_limit_that_would_do_is_in_the_command_to_go_on(mlcd: Command) -> None:
    record = stories.record(JobState.FAILED, exit_code=106, error="Too little.", enough_seconds=4.5 * 86400.0)
    ended = replace(stories.planned(), record=record)
    done = mlcd("run", "job.yaml", "--yes", client=FakeClient(acts=[[ended]]))
    assert "mlcd resume j-7f3a --deadline 4d12h   go on with a new limit" in done.out
    dear = replace(ended, record=replace(record, enough_seconds=None, enough_usd=61.5))
    done = mlcd("run", "job.yaml", "--yes", client=FakeClient(acts=[[dear]]))
    assert "mlcd resume j-7f3a --budget 61.5   go on with a new limit" in done.out


def test_of_one_limit_only_that_one_is_offered_to_be_changed(mlcd: Command) -> None:
    record = stories.record(JobState.PAUSED, exit_code=104, error="Too little.")
    ended = replace(stories.planned(), record=record, goal=Goal(Aim.FASTEST, budget_usd=60.0))
    done = mlcd("run", "job.yaml", "--yes", client=FakeClient(acts=[[ended]]))
    assert "mlcd resume j-7f3a --budget USD   go on with a new limit" in done.out
    assert "--deadline" not in done.out


def test_the_plan_says_why_a_deployment_failed(mlcd: Command) -> None:
    tail = "Traceback …\nModuleNotFoundError: No module named 'timm'\n"
    failure = Failure(FailureKind.CRASHED, "the program ended with exit code 1 on node 0", 1, tail)
    trials = (replace(stories.TRIALS[0], outcome=failure), *stories.TRIALS[1:4])
    done = mlcd("plan", "job.yaml", client=FakeClient(acts=[[replace(stories.planned(), trials=trials)]]))
    told = "1 the program ended with exit code 1 on node 0: ModuleNotFoundError: No module named 'timm'"
    assert told in " ".join(done.out.split())


def test_no_line_ends_in_blanks(mlcd: Command) -> None:
    done = mlcd("run", "job.yaml", "--yes", "--explain", client=FakeClient([[stories.succeeded()]]))
    assert [line for line in done.out.splitlines() if line != line.rstrip()] == []


def test_an_unreachable_goal_is_an_error_with_its_code(mlcd: Command) -> None:
    error = GoalUnreachableError("No deployment keeps 1h.", "The nearest takes 2h.")
    done = mlcd("plan", "job.yaml", client=FakeClient(error=error))
    assert (done.code, done.out) == (106, "")
    assert done.err == "Error: No deployment keeps 1h.\nThe nearest takes 2h.\n"


@pytest.mark.parametrize("option", ["--json", "--json-lines"])
def test_programs_that_read_json_read_the_error_too(mlcd: Command, option: str) -> None:
    error = GoalUnreachableError("No deployment keeps 1h.", "The nearest takes 2h.")
    done = mlcd("plan", "job.yaml", option, client=FakeClient(error=error))
    assert (done.code, done.err) == (106, "Error: No deployment keeps 1h.\nThe nearest takes 2h.\n")
    told = {"type": "GoalUnreachableError", "message": error.message, "hint": error.hint, "exit_code": 106}
    assert done.data == {"error": told}
