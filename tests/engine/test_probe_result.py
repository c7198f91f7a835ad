"""What a probe has shown so far."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mlcd.core.job import ProbeSettings
from mlcd.core.progress import MetricPoint, Point, Progress
from mlcd.core.task import EndCause, Refusal, TaskState, TaskStatus
from mlcd.core.trial import Failure, FailureKind, Measurement
from mlcd.engine.probe_result import probe_phases, probe_result
from mlcd.forecast.observed_noise import STABLE
from mlcd.worker.noise.schedule import OPENING_SECONDS

SETTINGS = ProbeSettings(interval_share=0.05, min_seconds=5, max_seconds=60, warmup_seconds=2, silent_seconds=30)
START = 1000.0


def running(*points: Point, state: TaskState = TaskState.RUNNING) -> TaskStatus:
    return TaskStatus(
        state,
        Progress(points),
        started_at=START,
        setup_at=START + 1,
        running_at=START + 2,
        log_tail="the end",
    )


def steady(seconds: float, rate: float = 100.0, begin: float = 3.0) -> tuple[Point, ...]:
    return tuple(Point(begin + n * 0.5, n + 1, rate * (n + 1) * 0.5) for n in range(int(seconds * 2) + 1))


def test_nothing_is_said_before_the_floor() -> None:
    assert probe_result(running(*steady(4)), START + 7, SETTINGS) is None


def test_a_stable_throughput_is_measured_at_the_floor() -> None:
    result = probe_result(running(*steady(7)), START + 10, SETTINGS)
    assert isinstance(result, Measurement)
    assert result.samples_per_second == pytest.approx(100)


def test_reports_that_arrive_late_are_waited_for() -> None:
    settings = replace(SETTINGS, max_seconds=6, silent_seconds=60)
    assert probe_result(running(*steady(3.5)), START + 20, settings) is None
    assert isinstance(probe_result(running(*steady(9)), START + 20, settings), Measurement)


def test_the_speed_is_measured_after_the_noise() -> None:
    def noisy(*readings: tuple[float, float]) -> TaskStatus:
        metrics = tuple(MetricPoint(seconds, 0, STABLE, stable) for seconds, stable in readings)
        seen = running(*steady(4, rate=50.0), *(replace(p, samples=p.samples + 200) for p in steady(30)[9:]))
        return replace(seen, progress=replace(seen.progress, metrics=metrics))

    assert probe_result(noisy((3.5, 0), (6, 0)), START + 10, SETTINGS) is None
    assert probe_result(noisy((3.5, 0), (8, 1)), START + 12.5, SETTINGS) is None
    result = probe_result(noisy((3.5, 0), (8, 1)), START + 13.5, SETTINGS)
    assert isinstance(result, Measurement)
    assert result.samples_per_second == pytest.approx(100)
    floor = START + 3.0 + OPENING_SECONDS + SETTINGS.min_seconds
    assert probe_result(noisy((3.5, 0), (8, 0)), floor - 0.5, SETTINGS) is None
    never = probe_result(noisy((3.5, 0), (8, 0)), floor + 0.5, SETTINGS)
    assert isinstance(never, Measurement)
    seldom = Progress(steady(30), (MetricPoint(20.0, 0, STABLE, 0.0),))
    assert isinstance(probe_result(replace(running(), progress=seldom), START + 10.5, SETTINGS), Measurement)


def test_a_program_that_ends_at_once_is_not_said_to_hang() -> None:
    result = probe_result(running(Point(3, 3, 60), state=TaskState.SUCCEEDED), START + 4, SETTINGS)
    assert isinstance(result, Failure)
    assert result.reason is FailureKind.CRASHED
    assert result.message == "it ended by itself after 3 steps, too soon to measure"


def test_iterations_that_disagree_extend_the_measurement_up_to_the_ceiling() -> None:
    rough = tuple(Point(3 + n * 0.5, n + 1, 50.0 * n + (40.0 if n % 4 < 2 else 0.0) + n % 3) for n in range(200))
    assert probe_result(running(*rough[:16]), START + 10.5, SETTINGS) is None
    assert isinstance(probe_result(running(*rough[:140]), START + 73, SETTINGS), Measurement)


@pytest.mark.parametrize(
    ("status", "now", "reason"),
    [
        (running(), START + 40, FailureKind.SILENT),
        (running(Point(3, 1, 8)), START + 40, FailureKind.HUNG),
        (replace(running(state=TaskState.FAILED), exit_code=3), START + 9, FailureKind.CRASHED),
        (
            replace(running(state=TaskState.FAILED), reason="it grew", cause=EndCause.OUT_OF_MEMORY),
            START + 9,
            FailureKind.OUT_OF_MEMORY,
        ),
        (running(state=TaskState.LOST), START + 9, FailureKind.LOST),
        (running(state=TaskState.SUCCEEDED), START + 9, FailureKind.SILENT),
    ],
)
def test_what_goes_wrong_is_a_failure_with_the_end_of_the_log(
    status: TaskStatus, now: float, reason: FailureKind
) -> None:
    result = probe_result(status, now, SETTINGS)
    assert isinstance(result, Failure)
    assert result.reason is reason
    assert result.log_tail == "the end"


def test_a_program_that_ends_early_has_been_measured_all_the_same() -> None:
    result = probe_result(running(*steady(1.5), state=TaskState.SUCCEEDED), START + 5, SETTINGS)
    assert isinstance(result, Measurement)


def test_compiling_once_more_for_longer_than_a_probe_may_take_is_waited_for() -> None:
    first = Point(2.0, 1, 10.0)
    compiled_at = 2.0 + SETTINGS.warmup_seconds + SETTINGS.max_seconds + 1.0
    slow = tuple(Point(compiled_at + n * 0.5, 2 + n, 20.0 + 10.0 * n) for n in range(3))
    now = START + slow[-1].seconds
    assert probe_result(running(first, *slow), now, SETTINGS) is None
    fast = tuple(Point(slow[-1].seconds + n * 0.5, 4 + n, 40.0 + 500.0 * n) for n in range(1, 21))
    result = probe_result(running(first, *slow, *fast), START + fast[-1].seconds, SETTINGS)
    assert isinstance(result, Measurement)
    assert result.samples_per_second == pytest.approx(1000.0, rel=0.05)


def test_compiling_once_more_is_part_of_the_start_and_not_of_the_speed() -> None:
    slow = tuple(Point(3.0 + n * 0.5, n + 1, 5.0 * (n + 1) * 0.5) for n in range(13))  # until 9 s
    fast = tuple(Point(9.0 + n * 0.5, 13 + n, slow[-1].samples + 100.0 * n * 0.5) for n in range(1, 31))
    status = replace(running(*slow, *fast, state=TaskState.STOPPED), ended_at=START + 24)
    result = probe_result(status, START + 24, SETTINGS)
    assert isinstance(result, Measurement)
    assert result.samples_per_second == pytest.approx(100, rel=0.02)
    phases = probe_phases(status, SETTINGS)
    assert phases.warmup == pytest.approx(9.0 - 2.0, abs=1.1)  # from the program's start until it was fast
    assert phases.total == pytest.approx(24)


def test_a_slow_setup_is_not_silence() -> None:
    status = TaskStatus(TaskState.SETUP, started_at=START, setup_at=START + 1)
    assert probe_result(status, START + 500, SETTINGS) is None


def test_the_phases_add_up_to_the_whole() -> None:
    status = replace(running(*steady(7), state=TaskState.STOPPED), ended_at=START + 12)
    phases = probe_phases(status, SETTINGS)
    assert (phases.start, phases.setup, phases.warmup) == (1, 1, 3)
    assert phases.total == pytest.approx(12)


@pytest.mark.parametrize(
    ("refused", "kind"),
    [
        (Refusal.USER, FailureKind.REFUSED),
        (Refusal.CLOUD, FailureKind.NOT_STARTED),
        (Refusal.NO_CAPACITY, FailureKind.NO_CAPACITY),
    ],
)
def test_a_start_that_failed_is_not_the_programs_fault(refused: Refusal, kind: FailureKind) -> None:
    status = TaskStatus(TaskState.FAILED, reason="pods/exec is forbidden", refused=refused, hint="Ask for it.")
    result = probe_result(status, START, SETTINGS)
    assert isinstance(result, Failure)
    assert (result.reason, result.message, result.hint) == (kind, "pods/exec is forbidden", "Ask for it.")
