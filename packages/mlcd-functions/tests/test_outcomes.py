"""What becomes of a task is decided from its functions' reports alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from mlcd.clouds.tasks.files import make_folders
from mlcd.clouds.tasks.outcome import COMPLETED, Outcome
from mlcd.core.machines import Deployment, InstanceType, Offer
from mlcd.core.task import EndCause, Refusal, Task, TaskFolder, TaskKind, TaskState
from mlcd_functions.collect import Collector, restarted, shifted
from mlcd_functions.counted_objects import CountedObjects
from mlcd_functions.files import Invocation, Spec, State
from mlcd_functions.lambdas import Answer
from mlcd_functions.messages import Event, Report, read_report, report_key
from mlcd_functions.objects.base import open_object_store
from mlcd_functions.outcomes import Restart, Situation, Wait, decide
from mlcd_functions.reporter import Reporter
from mlcd_functions.reports import with_answer, with_report

NOW = 1000.0
SPEC = Spec(
    Task("t", "j", TaskKind.TRAINING, "command", "true"),
    Deployment(Offer("functions", InstanceType("fn", vcpus=1.0), 0.1, 200, kind="function"), 2),
    "/nowhere",
    0.0,
)


def invocation(rank: int = 0, **facts: Any) -> Invocation:
    return replace(Invocation(rank, f"i{rank}", 1, 900.0, NOW, phase="running", running_at=901.0), **facts)


def ended(rank: int = 0, **facts: Any) -> Invocation:
    return invocation(rank, **{"phase": "ended", "ended_at": NOW, "exit_code": 0, **facts})


def situation(*invocations: Invocation, **facts: Any) -> Situation:
    usual: dict[str, Any] = {"memory_mb": 1024.0, "lost_seconds": 30.0, "settle_seconds": 3.0}
    return Situation(invocations, NOW, **{"log": lambda rank: Path("/nowhere"), **usual, **facts})


def test_while_all_run_there_is_nothing_to_do() -> None:
    assert decide(situation(invocation(0), invocation(1))) == Wait()
    assert decide(situation(ended(0), invocation(1))) == Wait()


def test_when_all_have_ended_by_themselves_it_is_done() -> None:
    assert decide(situation(ended(0), ended(1))) == COMPLETED


def test_when_the_time_of_one_was_up_all_begin_again() -> None:
    outcome = decide(situation(ended(0, asked="time"), ended(1)))
    assert isinstance(outcome, Restart)
    assert (outcome.ranks, outcome.losses) == ((0, 1), 0)


def test_only_what_is_lost_or_over_is_invoked_anew() -> None:
    silent = invocation(1, reported_at=NOW - 31.0)
    outcome = decide(situation(invocation(0), silent, invocation(2)))
    assert isinstance(outcome, Restart)
    assert (outcome.ranks, outcome.losses) == ((1,), 1)


def test_when_the_store_is_lost_all_programs_begin_again_before_they_wait_in_vain() -> None:
    outcome = decide(situation(invocation(0), invocation(1), store_lives=False))
    assert isinstance(outcome, Restart)
    assert (outcome.ranks, outcome.losses) == ((), 1), "every function stays"
    assert decide(situation(invocation(0), ended(1), store_lives=False)) == Wait(), "the work may be done"
    assert decide(situation(invocation(0, asked="stop"), invocation(1), store_lives=False)) == Wait()


def test_a_program_that_was_killed_from_outside_is_lost_and_one_that_filled_its_memory_is_not() -> None:
    killed = invocation(0, phase="failed", exit_code=137, memory_mb=100.0)
    assert isinstance(decide(situation(killed, invocation(1))), Restart)
    full = replace(killed, memory_mb=1000.0)
    assert decide(situation(full, invocation(1))) == Outcome(EndCause.OUT_OF_MEMORY, "out of memory", 137, 0)


def test_the_failure_of_a_program_is_told_once_others_had_the_time_to_be_its_cause() -> None:
    failed = invocation(1, phase="failed", exit_code=3, reported_at=NOW - 1.0)
    assert decide(situation(invocation(0), failed)) == Wait()
    outcome = decide(situation(invocation(0), replace(failed, reported_at=NOW - 4.0)))
    assert isinstance(outcome, Outcome)
    assert (outcome.state, outcome.exit_code, outcome.node) == (TaskState.FAILED, 3, 1)


def test_why_a_program_failed_is_read_from_its_log_as_on_any_cloud(tmp_path: Path) -> None:
    (tmp_path / "1").write_text("OSError: [Errno 28] No space left on device\n")
    failed = invocation(1, phase="failed", exit_code=1, reported_at=NOW - 4.0)
    outcome = decide(situation(invocation(0), failed, log=lambda rank: tmp_path / str(rank)))
    assert outcome == Outcome(EndCause.DISK_FULL, "no space left on the disk", 1, 1)
    setup = replace(failed, phase="setup", running_at=None)
    ended = decide(situation(setup))
    assert ended == Outcome(EndCause.CRASHED, "setup ended with exit code 1 on node 1", 1, 1)


def test_a_parameter_store_that_programs_have_lost_is_no_fault_of_theirs() -> None:
    failed = invocation(0, phase="failed", exit_code=1, sync_error="StoreLost")
    outcome = decide(situation(failed, invocation(1)))
    assert isinstance(outcome, Restart)
    assert (outcome.ranks, outcome.why, outcome.losses) == ((), "the parameter store was lost", 1)


def test_one_that_others_have_waited_for_too_long_is_a_straggler() -> None:
    waited = invocation(0, phase="failed", exit_code=1, sync_error="SyncTimeout", missing=(1,))
    outcome = decide(situation(waited, invocation(1)))
    assert isinstance(outcome, Restart)
    assert (outcome.ranks, outcome.why) == ((1,), "straggling: rank 1")


def test_a_parameter_store_that_died_is_nobodys_fault_and_a_full_one_is_named() -> None:
    failed = invocation(0, phase="failed", exit_code=1, reported_at=NOW - 10.0)
    assert isinstance(decide(situation(failed, invocation(1), store_lives=False)), Restart)
    outcome = decide(situation(replace(failed, sync_error="StoreFull"), invocation(1)))
    assert isinstance(outcome, Outcome)
    assert "functions.store_memory_mb" in outcome.reason


def test_a_function_that_may_not_write_to_the_object_store_is_not_invoked_again() -> None:
    state = State(1, "b", generation=1, latest=(invocation(0), invocation(1)))
    payload = {"generation": 0, "problem": "the object store failed", "refused": "It refuses 'reports/1'."}
    after = with_answer(state, "i1", Answer(payload, billed_seconds=0.2), {})
    outcome = decide(situation(*after.latest))
    assert isinstance(outcome, Outcome)
    assert (outcome.refused, "It refuses 'reports/1'." in outcome.reason) == (Refusal.USER, True)


def test_the_tasks_own_limit_ends_it() -> None:
    assert decide(situation(ended(0, asked="limit"), invocation(1))) == Outcome(EndCause.TIME_LIMIT, "time limit")


def test_an_answer_that_broke_off_is_an_error_and_costs_what_was_billed() -> None:
    state = State(1, "b", generation=1, latest=(invocation(0), invocation(1)))
    after = with_answer(state, "i1", Answer({}, "signal: killed", billed_seconds=7.5), {})
    assert (after.latest[1].error, after.latest[1].seconds(NOW)) == ("signal: killed", 7.5)
    assert with_answer(state, "unknown", Answer({}), {}) == state


def test_a_function_costs_from_its_begin_and_the_bill_never_shrinks() -> None:
    state = State(1, "b", started_at=900.0, generation=1, latest=(invocation(0, running_at=None, reported_at=900.0),))
    assert state.seconds(950.0) == 0.0  # it waits for room
    begun = with_report(state, 0, Report(951.0, "fetching", began_at=950.0))
    assert (begun.started_at, begun.seconds(960.0)) == (950.0, 10.0)
    over = with_answer(begun, "i0", Answer({}, billed_seconds=10.2), {})
    assert (over.seconds(NOW), over.latest[0].ended_at) == (10.2, 960.2)


def test_a_function_that_was_ready_before_it_was_asked_for_costs_from_then_on() -> None:
    state = State(1, "b", started_at=900.0, generation=1, latest=(invocation(0),))
    assert with_report(state, 0, Report(951.0, "fetching", began_at=800.0)).started_at == 900.0


def test_a_function_costs_no_more_than_the_time_that_it_may_run() -> None:
    asleep = invocation(0, began_at=900.0, most_seconds=300.0)
    assert State(1, "b", generation=1, latest=(asleep,)).seconds(NOW + 10 * 3600.0) == 300.0
    assert asleep.seconds_if_over(NOW + 10 * 3600.0) == 300.0


def test_a_function_that_was_never_heard_of_is_paid_since_its_invocation() -> None:
    state = State(1, "b", started_at=900.0, generation=1, latest=(invocation(0, running_at=None),))
    given_up = state.with_invocation(invocation(0, invocation_id="i7", generation=2, invoked_at=930.0))
    assert given_up.seconds(930.0) == 30.0


def test_one_that_ends_in_an_older_generation_has_to_be_invoked_anew() -> None:
    state = State(1, "b", generation=2, latest=(invocation(0),))
    after = with_report(state, 0, Report(NOW, "ended", generation=1, exit_code=0))
    assert after.latest[0].problem
    assert isinstance(decide(situation(*after.latest)), Restart)


def test_the_time_to_the_first_step_is_counted_once_for_each_start() -> None:
    state = State(1, "b", generation=1, latest=(invocation(0),))
    line = '{"t": 912.0, "steps": 1, "samples": 8, "process": "a"}\n'
    report = Report(NOW, "running", generation=1, progress=line, running_at=905.0)
    once = with_report(state, 0, report)
    twice = with_report(once, 0, report)
    assert (once.starts, once.init_seconds, twice.init_seconds) == (1, 12.0, 12.0)


def line_of(samples: float, process: str) -> str:
    return f'{{"t": 1.0, "steps": {samples / 8:.0f}, "samples": {samples}, "process": "{process}"}}\n'


def counted(text: str) -> list[float]:
    return [float(part.split(",")[0]) for part in text.split('"samples": ')[1:]]


def test_what_is_done_again_after_a_restart_is_not_counted_twice() -> None:
    state = State(1, "b", generation=1)
    text, state = shifted(line_of(80, "a"), 0, state)
    assert counted(text) == [80.0]
    state = restarted(state, 1, samples=64.0)  # the checkpoint holds less than had been counted
    text, state = shifted(line_of(96, "a") + line_of(8, "b") + line_of(40, "b"), 0, state)
    assert counted(text) == [0.0, 24.0]  # late words of the old process are left out
    assert state.count_of(0).before_samples + state.count_of(0).samples == 64 + 40


def test_what_comes_late_of_a_program_that_was_never_heard_of_is_not_counted(tmp_path: Path) -> None:
    home = Collector(TaskFolder(tmp_path), tmp_path / "kept", 1)
    make_folders(home.folder, home.checkpoints)
    state = restarted(State(1, "b", generation=1, latest=(invocation(0),)), 1, samples=0.0)
    state = replace(state, generation=2)
    state = home.take(state, invocation(0), Report(NOW, "running", generation=1, progress=line_of(8, "a")))
    state = home.take(state, invocation(0), Report(NOW, "running", generation=2, progress=line_of(16, "b")))
    assert counted((tmp_path / "progress" / "rank-0.jsonl").read_text()) == [16.0]


def test_the_last_words_of_a_program_go_with_its_own_generation(tmp_path: Path) -> None:
    objects = CountedObjects(open_object_store((tmp_path / "objects").as_uri()))
    progress = tmp_path / "rank-0.jsonl"
    event = Event(objects.url, "t", 0, "i1", "true")
    reporter = Reporter(objects, event, tmp_path / "log", progress, lambda: (0.0, 0.0))
    reporter.next_program(1)
    progress.write_text(line_of(8, "a"))
    reporter.next_program(2)
    with progress.open("a") as file:
        file.write(line_of(16, "b"))
    assert reporter.deliver()
    reports = [read_report(objects.get(report_key(0, "i1", number))) for number in range(3)]
    found = [(report.generation, counted(report.progress)) for report in reports]
    assert found == [(0, []), (1, [8.0]), (2, [16.0])]


def test_what_had_not_been_counted_before_a_restart_is_added() -> None:
    _, state = shifted(line_of(40, "a"), 0, State(1, "b", generation=1))
    state = restarted(state, 1, samples=64.0)  # the last reports of a killed function never came
    text, _ = shifted(line_of(8, "b"), 0, state)
    assert counted(text) == [32.0]


def test_how_a_program_ended_is_never_told_of_the_next_one(tmp_path: Path) -> None:
    objects = CountedObjects(open_object_store((tmp_path / "objects").as_uri()))
    event = Event(objects.url, "t", 0, "i1", "true")
    reporter = Reporter(objects, event, tmp_path / "log", tmp_path / "progress", lambda: (0.0, 0.0))
    reporter.next_program(1)
    reporter.tell(phase="failed", exit_code=137, sync_error="SyncTimeout", missing="1")
    reporter.next_program(2)
    reporter.deliver()
    *_, ended, begins = [read_report(objects.get(report_key(0, "i1", number))) for number in range(3)]
    assert (ended.generation, ended.exit_code) == (1, 137)
    assert (begins.generation, begins.phase, begins.exit_code, begins.sync_error) == (2, "fetching", None, "")
