"""What becomes of a task is decided from its functions' reports alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from mlcd.clouds.functions.counting import CountedObjects
from mlcd.clouds.functions.courier import Courier
from mlcd.clouds.functions.files import Spec, State, Stint
from mlcd.clouds.functions.hearing import hear_answer, hear_report
from mlcd.clouds.functions.homecoming import Home, restarted, shifted
from mlcd.clouds.functions.lambdas import Answer
from mlcd.clouds.functions.orders import Event, Report, read_report, report_key
from mlcd.clouds.functions.verdicts import Again, Finish, Scene, Wait, decide
from mlcd.core.machines import Deployment, InstanceType, Offer
from mlcd.core.task import Refusal, Task, TaskFolder, TaskKind, TaskState
from mlcd.sync import open_object_store

NOW = 1000.0
SPEC = Spec(
    Task("t", "j", TaskKind.TRAINING, "command", "true"),
    Deployment(Offer("functions", InstanceType("fn", vcpus=1.0), 0.1, 200, kind="function"), 2),
    "/nowhere",
    0.0,
)


def stint(rank: int = 0, **facts: Any) -> Stint:
    return replace(Stint(rank, f"i{rank}", 1, 900.0, NOW, phase="running", running_at=901.0), **facts)


def ended(rank: int = 0, **facts: Any) -> Stint:
    return stint(rank, **{"phase": "ended", "ended_at": NOW, "exit_code": 0, **facts})


def scene(*stints: Stint, **facts: Any) -> Scene:
    usual: dict[str, Any] = {"memory_mb": 1024.0, "lost_seconds": 30.0, "settle_seconds": 3.0}
    return Scene(stints, NOW, **{**usual, **facts})


def test_while_all_run_there_is_nothing_to_do() -> None:
    assert decide(scene(stint(0), stint(1))) == Wait()
    assert decide(scene(ended(0), stint(1))) == Wait()


def test_when_all_have_ended_by_themselves_it_is_done() -> None:
    assert decide(scene(ended(0), ended(1))) == Finish(TaskState.SUCCEEDED, exit_code=0)


def test_when_the_time_of_one_was_up_all_begin_again() -> None:
    verdict = decide(scene(ended(0, asked="time"), ended(1)))
    assert isinstance(verdict, Again)
    assert (verdict.ranks, verdict.losses) == ((0, 1), 0)


def test_only_what_is_lost_or_over_is_invoked_anew() -> None:
    silent = stint(1, heard_at=NOW - 31.0)
    verdict = decide(scene(stint(0), silent, stint(2)))
    assert isinstance(verdict, Again)
    assert (verdict.ranks, verdict.losses) == ((1,), 1)


def test_a_program_that_was_killed_from_outside_is_lost_and_one_that_filled_its_memory_is_not() -> None:
    killed = stint(0, phase="failed", exit_code=137, memory_mb=100.0)
    assert isinstance(decide(scene(killed, stint(1))), Again)
    full = replace(killed, memory_mb=1000.0)
    assert decide(scene(full, stint(1))) == Finish(TaskState.FAILED, "out of memory", 137, 0)


def test_the_failure_of_a_program_is_told_once_others_had_the_time_to_be_its_cause() -> None:
    failed = stint(1, phase="failed", exit_code=3, heard_at=NOW - 1.0)
    assert decide(scene(stint(0), failed)) == Wait()
    verdict = decide(scene(stint(0), replace(failed, heard_at=NOW - 4.0)))
    assert isinstance(verdict, Finish)
    assert (verdict.state, verdict.exit_code, verdict.rank) == (TaskState.FAILED, 3, 1)


def test_a_parameter_store_that_programs_have_lost_is_no_fault_of_theirs() -> None:
    failed = stint(0, phase="failed", exit_code=1)
    tails = [
        "mlcd.sync.errors.StoreLost: The parameter store at store:6379 cannot be reached: timed out.",
        "",
    ]
    verdict = decide(scene(failed, stint(1), tails=tails))
    assert isinstance(verdict, Again)
    assert (verdict.ranks, verdict.why, verdict.losses) == ((), "the parameter store was lost", 1)


def test_one_that_others_have_waited_for_in_vain_is_a_straggler() -> None:
    waited = stint(0, phase="failed", exit_code=1)
    tails = ["mlcd.sync.errors.SyncTimeout: Nothing was heard of rank 1 for 60 s.", ""]
    verdict = decide(scene(waited, stint(1), tails=tails))
    assert isinstance(verdict, Again)
    assert (verdict.ranks, verdict.why) == ((1,), "straggling: rank 1")


def test_a_parameter_store_that_died_is_nobodys_fault_and_a_full_one_is_named() -> None:
    failed = stint(0, phase="failed", exit_code=1, heard_at=NOW - 10.0)
    assert isinstance(decide(scene(failed, stint(1), store_lives=False)), Again)
    verdict = decide(scene(failed, stint(1), tails=["mlcd.sync.errors.StoreFull: …", ""]))
    assert isinstance(verdict, Finish)
    assert "functions.store_memory_mb" in verdict.reason


def test_a_function_that_may_not_write_to_the_object_store_is_not_invoked_again() -> None:
    state = State(1, "b", generation=1, stints=(stint(0), stint(1)))
    payload = {"generation": 0, "problem": "the object store failed", "refused": "It refuses 'reports/1'."}
    after = hear_answer(state, "i1", Answer(payload, billed_seconds=0.2), {})
    verdict = decide(scene(*after.stints))
    assert isinstance(verdict, Finish)
    assert (verdict.refused, "It refuses 'reports/1'." in verdict.reason) == (Refusal.USER, True)


def test_the_tasks_own_limit_ends_it() -> None:
    assert decide(scene(ended(0, asked="limit"), stint(1))) == Finish(TaskState.STOPPED, "time limit")


def test_an_answer_that_broke_off_is_an_error_and_costs_what_was_billed() -> None:
    state = State(1, "b", generation=1, stints=(stint(0), stint(1)))
    after = hear_answer(state, "i1", Answer({}, "signal: killed", billed_seconds=7.5), {})
    assert (after.stints[1].error, after.stints[1].seconds(NOW)) == ("signal: killed", 7.5)
    assert hear_answer(state, "unknown", Answer({}), {}) == state


def test_a_function_costs_from_its_begin_and_the_bill_never_shrinks() -> None:
    state = State(1, "b", started_at=900.0, generation=1, stints=(stint(0, running_at=None, heard_at=900.0),))
    assert state.seconds(950.0) == 0.0  # it waits for room
    begun = hear_report(state, 0, Report(951.0, "fetching", began_at=950.0), SPEC)
    assert (begun.started_at, begun.seconds(960.0)) == (950.0, 10.0)
    over = hear_answer(begun, "i0", Answer({}, billed_seconds=10.2), {})
    assert (over.seconds(NOW), over.stints[0].ended_at) == (10.2, 960.2)


def test_a_function_that_was_ready_before_it_was_asked_for_costs_from_then_on() -> None:
    state = State(1, "b", started_at=900.0, generation=1, stints=(stint(0),))
    assert hear_report(state, 0, Report(951.0, "fetching", began_at=800.0), SPEC).started_at == 900.0


def test_a_function_costs_no_more_than_the_time_that_it_may_run() -> None:
    asleep = stint(0, began_at=900.0, most_seconds=300.0)
    assert State(1, "b", generation=1, stints=(asleep,)).seconds(NOW + 10 * 3600.0) == 300.0
    assert asleep.seconds_if_over(NOW + 10 * 3600.0) == 300.0


def test_a_function_that_was_never_heard_of_is_paid_since_its_invocation() -> None:
    state = State(1, "b", started_at=900.0, generation=1, stints=(stint(0, running_at=None),))
    given_up = state.with_stint(stint(0, invocation="i7", generation=2, invoked_at=930.0))
    assert given_up.seconds(930.0) == 30.0


def test_one_that_ends_in_an_older_generation_has_to_be_invoked_anew() -> None:
    state = State(1, "b", generation=2, stints=(stint(0),))
    after = hear_report(state, 0, Report(NOW, "ended", generation=1, exit_code=0), SPEC)
    assert after.stints[0].problem
    assert isinstance(decide(scene(*after.stints)), Again)


def test_the_time_to_the_first_step_is_counted_once_for_each_start() -> None:
    state = State(1, "b", generation=1, stints=(stint(0),))
    line = '{"t": 912.0, "steps": 1, "samples": 8, "process": "a"}\n'
    report = Report(NOW, "running", generation=1, progress=line, running_at=905.0)
    once = hear_report(state, 0, report, SPEC)
    twice = hear_report(once, 0, report, SPEC)
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
    home = Home(TaskFolder(tmp_path), tmp_path / "kept", 1)
    home.make()
    state = restarted(State(1, "b", generation=1, stints=(stint(0),)), 1, samples=0.0)
    state = replace(state, generation=2)
    state = home.take(state, stint(0), Report(NOW, "running", generation=1, progress=line_of(8, "a")))
    state = home.take(state, stint(0), Report(NOW, "running", generation=2, progress=line_of(16, "b")))
    assert counted((tmp_path / "progress" / "rank-0.jsonl").read_text()) == [16.0]


def test_the_last_words_of_a_program_go_with_its_own_generation(tmp_path: Path) -> None:
    objects = CountedObjects(open_object_store((tmp_path / "objects").as_uri()))
    progress = tmp_path / "rank-0.jsonl"
    event = Event(objects.url, "t", 0, "i1", "true")
    courier = Courier(objects, event, tmp_path / "log", progress, lambda: (0.0, 0.0))
    courier.next_program(1)
    progress.write_text(line_of(8, "a"))
    courier.next_program(2)
    with progress.open("a") as file:
        file.write(line_of(16, "b"))
    assert courier.deliver()
    reports = [read_report(objects.get(report_key(0, "i1", number))) for number in range(3)]
    found = [(report.generation, counted(report.progress)) for report in reports]
    assert found == [(0, []), (1, [8.0]), (2, [16.0])]


def test_what_had_not_been_counted_before_a_restart_is_added() -> None:
    _, state = shifted(line_of(40, "a"), 0, State(1, "b", generation=1))
    state = restarted(state, 1, samples=64.0)  # the last reports of a killed function never came
    text, _ = shifted(line_of(8, "b"), 0, state)
    assert counted(text) == [32.0]
