"""What becomes of a task is decided from its functions' reports alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mlcd.clouds.functions.files import Spec, State, Stint
from mlcd.clouds.functions.hearing import hear_answer, hear_report
from mlcd.clouds.functions.homecoming import restarted, shifted
from mlcd.clouds.functions.lambdas import Answer
from mlcd.clouds.functions.orders import Report
from mlcd.clouds.functions.verdicts import Again, Finish, Scene, Wait, decide
from mlcd.core.machines import Deployment, InstanceType, Offer
from mlcd.core.task import Task, TaskKind, TaskState

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


def test_the_tasks_own_limit_ends_it() -> None:
    assert decide(scene(ended(0, asked="limit"), stint(1))) == Finish(TaskState.STOPPED, "time limit")


def test_an_answer_that_broke_off_is_an_error_and_costs_what_was_billed() -> None:
    state = State(1, "b", generation=1, stints=(stint(0), stint(1)))
    after = hear_answer(state, "i1", Answer({}, "signal: killed", billed_seconds=7.5), {})
    assert (after.stints[1].error, after.stints[1].seconds(NOW)) == ("signal: killed", 7.5)
    assert hear_answer(state, "unknown", Answer({}), {}) == state


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


def test_what_had_not_been_counted_before_a_restart_is_added() -> None:
    _, state = shifted(line_of(40, "a"), 0, State(1, "b", generation=1))
    state = restarted(state, 1, samples=64.0)  # the last reports of a killed function never came
    text, _ = shifted(line_of(8, "b"), 0, state)
    assert counted(text) == [32.0]
