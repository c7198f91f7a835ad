"""Small studies to test searches with, built from values."""

from __future__ import annotations

from mlcd.core.goal import Aim, Goal
from mlcd.core.machines import Deployment, InstanceType, Offer
from mlcd.core.study import Study
from mlcd.core.trial import Failure, FailureKind, Measurement, Trial


def offer(name: str = "c5", usd_per_hour: float = 1.0, max_nodes: int = 8, **facts: object) -> Offer:
    """An offer; facts that belong to the instance go there."""
    machine = {key: facts.pop(key) for key in list(facts) if key in InstanceType.__dataclass_fields__}
    return Offer("test", InstanceType(name, **machine), usd_per_hour, max_nodes, **facts)  # type: ignore[arg-type]


def deployment(
    name: str = "c5",
    nodes: int = 1,
    batch_size: int | None = None,
    usd_per_hour: float = 1.0,
    **facts: object,
) -> Deployment:
    """A deployment of such an offer."""
    return Deployment(offer(name, usd_per_hour, **facts), nodes, batch_size)


def measured(where: Deployment, speed: float, error: float = 0.0, seconds: float = 600.0) -> Trial:
    """A trial that measured that speed to that standard error ÷ speed."""
    half = 1.96 * error * speed
    return Trial(where, Measurement(speed, speed - half, speed + half), seconds, where.usd(seconds))


def failed(where: Deployment, reason: FailureKind = FailureKind.OUT_OF_MEMORY) -> Trial:
    """A trial that failed."""
    return Trial(where, Failure(reason), 60.0, where.usd(60.0))


def study_of(
    *trials: Trial,
    aim: Aim = Aim.FASTEST,
    deadline_hours: float | None = None,
    budget_usd: float | None = None,
    samples: float = 360_000.0,
    space: tuple[Deployment, ...] = (),
    seed: int = 0,
) -> Study:
    """A study after these trials."""
    deadline = None if deadline_hours is None else deadline_hours * 3600.0
    places = space or tuple(dict.fromkeys(trial.deployment for trial in trials))
    study = Study(Goal(aim, deadline, budget_usd), places, samples, seed=seed)
    for trial in trials:
        study = study.with_trial(trial)
    return study
