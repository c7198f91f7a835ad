"""What a probe has shown so far. Pure: the same status gives the same result."""

from __future__ import annotations

from dataclasses import replace

from mlcd.core.job import ProbeSettings
from mlcd.core.task import EndCause, TaskState, TaskStatus
from mlcd.core.trial import Failure, FailureKind, Measurement, Phases
from mlcd.core.units import show_duration
from mlcd.forecast.observed_conditions import PARAMETERS
from mlcd.forecast.observed_noise import noise_moments, noise_moves, noise_now
from mlcd.forecast.throughput import (
    Throughput,
    first_step_seconds,
    last_step_seconds,
    lost_seconds,
    steady_since,
    throughput_after,
)
from mlcd.worker.noise.schedule import OPENING_SECONDS

NOT_SHARED = "every rank does the same work: nothing shows that the program shares it, or all train on the same samples"
SHARE_HINT = (
    "To share the work use DistributedDataParallel with a DistributedSampler, or give each rank its own samples (mlcd.ElasticSampler, or by RANK and "
    "WORLD_SIZE). Else set `num_nodes: 1`, and on machines with several GPUs ask for one."
)
_FAILURES = {
    EndCause.NO_CAPACITY: FailureKind.NO_CAPACITY,
    EndCause.REFUSED: FailureKind.REFUSED,
    EndCause.CLOUD_FAILED: FailureKind.NOT_STARTED,
    EndCause.OUT_OF_MEMORY: FailureKind.OUT_OF_MEMORY,
    EndCause.NO_GPU: FailureKind.NO_GPU,
}


def probe_result(status: TaskStatus, now: float, settings: ProbeSettings) -> Measurement | Failure | None:
    """A measurement that is good enough, a failure, or None: wait."""
    seen = _throughput(status, settings)
    if trains_alone(status, seen is not None):
        return _failure(status, FailureKind.NOT_SHARED, NOT_SHARED)
    if status.state.ended:
        return _of_ended(status, seen)
    if seen is not None and _good_enough(status, seen, now, settings):
        return _measurement(status, seen)
    return _of_silent(status, seen, now, settings)


def trains_alone(status: TaskStatus, warm: bool) -> bool:
    """Whether every rank does the same work; known once it is warm, for some programs find each other late."""
    well = status.state not in (TaskState.FAILED, TaskState.LOST)
    return status.progress.alone and well and (warm or status.state.ended)


def is_warm(status: TaskStatus, settings: ProbeSettings) -> bool:
    """Whether steps were seen after the warm-up."""
    return _throughput(status, settings) is not None


def fails_to_start(status: TaskStatus) -> bool:
    """Whether the program itself failed before its first step, as it does on a checkpoint that it cannot load."""
    own_doing = status.state is TaskState.FAILED and status.running_at is not None
    logged = status.log_tail.lower()  # of the program, which may say more than the cloud has seen
    other_cause = (
        status.cause in (EndCause.NO_CAPACITY, EndCause.OUT_OF_MEMORY, EndCause.NO_GPU)
        or "out of memory" in logged
        or "no module named" in logged
    )
    return own_doing and not other_cause and status.progress.steps == 0


def probe_phases(status: TaskStatus, settings: ProbeSettings) -> Phases:
    """Where the seconds of the probe went."""
    end = status.ended_at
    if status.started_at is None or end is None:
        return Phases()
    setup_at = _or(status.setup_at, end)
    running_at = _or(status.running_at, end)
    first = first_step_seconds(status.progress.points)
    warm_at = end if first is None else min(end, status.started_at + _warmed_up(status, first, settings))
    return Phases(
        start=max(0.0, setup_at - status.started_at),
        setup=max(0.0, running_at - setup_at),
        warmup=max(0.0, warm_at - running_at),
        measuring=max(0.0, end - max(warm_at, running_at)),
    )


def _warmed_up(status: TaskStatus, first: float, settings: ProbeSettings) -> float:
    """The warm-up that was asked for, and what the program lost beyond it: a training pays that once, as its start."""
    points, by_rule = status.progress.points, _warm_by_rule(status, first, settings)
    return first + settings.warmup_seconds + lost_seconds(points, by_rule, steady_since(points, by_rule))


def _throughput(status: TaskStatus, settings: ProbeSettings) -> Throughput | None:
    """What was seen after the warm-up; of a program that ended early, after its first step."""
    points = status.progress.points
    first = first_step_seconds(points)
    if first is None:
        return None
    warm = throughput_after(points, warm_seconds(status, first, settings))
    return throughput_after(points, first) if warm is None and status.state.ended else warm


def _good_enough(status: TaskStatus, seen: Throughput, now: float, settings: ProbeSettings) -> bool:
    """Long enough, and either stable or as long as it may take.

    A program whose steps are longer than the floor is measured until it has been running for the ceiling. Where the first
    step to be measured took longer than that, it was busy with compiling, and the ceiling counts from that step.
    """
    points = status.progress.points
    first = first_step_seconds(points)
    if first is None:
        return False
    watched_until, warm = _watched_until(status, now), _warm_by_rule(status, first, settings)
    stepped = next((point.seconds for point in points if point.seconds >= warm), warm)
    begun = stepped if stepped - warm > settings.max_seconds else warm
    if watched_until - begun >= settings.max_seconds:
        return True
    measured = watched_until - max(begun, warm_seconds(status, first, settings))
    stable = seen.segments >= 4 and seen.interval_share <= settings.interval_share
    return measured >= settings.min_seconds and stable


def _watched_until(status: TaskStatus, now: float) -> float:
    """Until when the program was seen: on a busy computer what it reports arrives late, and only that counts."""
    last = last_step_seconds(status.progress.points)
    return 0.0 if last is None or status.started_at is None else min(now - status.started_at, last)


def warm_seconds(status: TaskStatus, first: float, settings: ProbeSettings) -> float:
    """The moment from which the speed is measured: after the warm-up, and once the gradient noise is known.

    Where the noise is measured at all it opens with slower steps (see worker.noise.schedule). What goes on compiling
    or filling caches after that warms up for longer.
    """
    return steady_since(status.progress.points, _warm_by_rule(status, first, settings))


def _warm_by_rule(status: TaskStatus, first: float, settings: ProbeSettings) -> float:
    warm = first + settings.warmup_seconds
    opening = noise_moments(status.progress.metrics)
    if opening is None or opening.first > warm:
        return warm
    over = first + OPENING_SECONDS
    return max(warm, over if opening.stable is None else min(over, opening.stable))


def _of_ended(status: TaskStatus, seen: Throughput | None) -> Measurement | Failure:
    """A program that ended by itself or at its time limit may have shown enough."""
    if status.state is TaskState.LOST:
        return _failure(status, FailureKind.LOST, status.reason or "the machine is gone")
    if status.state is TaskState.FAILED:
        return _of_failed(status)
    if seen is not None:
        return _measurement(status, seen)
    if status.progress.steps > 0 and status.state is TaskState.SUCCEEDED:
        steps = f"{status.progress.steps:,.0f} steps" if status.progress.steps > 1 else "one step"
        return _failure(status, FailureKind.CRASHED, f"it ended by itself after {steps}, too soon to measure")
    if status.progress.steps > 0:
        return _failure(status, FailureKind.HUNG, "it was stopped before a second step was seen")
    return _failure(status, FailureKind.SILENT, f"it ended ({status.reason or 'by itself'}) and not one step was seen")


def _of_failed(status: TaskStatus) -> Failure:
    kind = _FAILURES.get(status.cause, FailureKind.CRASHED) if status.cause else FailureKind.CRASHED
    code = "" if status.exit_code is None else f"exit code {status.exit_code}"
    return replace(_failure(status, kind, status.reason or code or "it failed"), hint=status.hint)


def _of_silent(
    status: TaskStatus, seen: Throughput | None, now: float, settings: ProbeSettings
) -> Measurement | Failure | None:
    """A running program that shows no sign of life for too long."""
    if status.running_at is None or status.started_at is None:
        return None
    points = status.progress.points
    first = first_step_seconds(points)
    last_sign = status.running_at if first is None else status.started_at + _last_move(status)
    if now - max(last_sign, status.running_at) < settings.silent_seconds:
        return None
    if seen is not None and seen.segments >= 2:
        return _measurement(status, seen)
    silence = show_duration(settings.silent_seconds)
    if first is None:
        return _failure(
            status,
            FailureKind.SILENT,
            f"it ran for {silence}, which is `probe.silent_seconds`, and not one step was seen",
        )
    return _failure(status, FailureKind.HUNG, f"no step for {silence}, which is `probe.silent_seconds`")


def _last_move(status: TaskStatus) -> float:
    """When the newest step was first seen."""
    steps = status.progress.steps
    return next(point.seconds for point in status.progress.points if point.steps >= steps)


def _measurement(status: TaskStatus, seen: Throughput) -> Measurement:
    return Measurement(
        samples_per_second=seen.samples_per_second,
        low=seen.low,
        high=seen.high,
        steps=seen.steps,
        samples=seen.samples,
        usage=status.progress.usage,
        noise_scale=noise_now(status.progress),
        noise_moves=noise_moves(status.progress),
        parameters=status.progress.latest(PARAMETERS) or 0.0,
        spread=seen.spread,
    )


def _failure(status: TaskStatus, reason: FailureKind, message: str) -> Failure:
    return Failure(reason, message, status.exit_code, status.log_tail)


def _or(moment: float | None, otherwise: float) -> float:
    return otherwise if moment is None else moment
