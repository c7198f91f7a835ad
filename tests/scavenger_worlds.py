"""Jobs whose step times follow the law, so that the best deployment is known."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from mlcd.core.goal import Aim, Goal
from mlcd.core.machines import Deployment
from mlcd.core.study import EarlierJob, ProbeTime, Study
from mlcd.core.trial import Measurement, Trial
from mlcd.forecast.parallel import StepLaw, SyncTrend
from mlcd.search.space_models import place
from search_worlds import measured, offer

NODES = (1, 2, 3, 4, 6, 8)
BATCHES = (64, 128, 256, 512)
TREND = SyncTrend(inter=0.5, nodes_slope=0.3)
LAWS = {
    "slow": StepLaw(0.05, 2e-3, 8, 512, trend=TREND),
    "fast": StepLaw(0.02, 5e-4, 8, 512, trend=TREND),
}
OFFERS = {"slow": offer("slow", 1.0, vcpus=4, memory_gib=64.0), "fast": offer("fast", 3.0, vcpus=8, memory_gib=64.0)}
SPACE = tuple(Deployment(OFFERS[name], nodes, batch) for name, nodes, batch in product(OFFERS, NODES, BATCHES))
SAMPLES_AT = {64: 4.0e7, 128: 4.2e7, 256: 4.6e7, 512: 5.4e7}


def truth(deployment: Deployment, factor: float = 1.0) -> float:
    """Samples a second."""
    placement = place(deployment)
    return placement.batch / LAWS[placement.family].step_seconds(placement) / factor


def study(aim: Aim = Aim.CHEAPEST, space: tuple[Deployment, ...] = SPACE, **limits: float) -> Study:
    """A job of two to sixteen hours; a probe takes a minute, as in Scavenger's paper: 37 s to move, and some 20 steps."""
    minute = ProbeTime(first_seconds=60.0, step_seconds=0.0)
    return Study(Goal(aim, **limits), space, samples=4.0e7, samples_at=SAMPLES_AT, probe_time=minute)


def value(job: Study, deployment: Deployment) -> float:
    """What the goal makes small, for the training alone."""
    seconds = job.training_seconds(deployment, truth(deployment))
    return job.goal.value(seconds, deployment.rental_usd(seconds))


def trial(deployment: Deployment, factor: float = 1.0) -> Trial:
    """The truth, seen to one per cent."""
    return measured(deployment, truth(deployment, factor), error=0.01)


def with_moving_noise(one: Trial) -> Trial:
    """The same, while the gradient noise was not stable yet."""
    assert isinstance(one.outcome, Measurement)
    return replace(one, outcome=replace(one.outcome, noise_moves=True))


def earlier_job(likeness: str = "the same program", factor: float = 1.0, name: str = "past-1") -> EarlierJob:
    """Six profiles of each type, spread over nodes and batch sizes."""
    corners = tuple(product((1, 3, 8), (64, 512)))
    trials = (trial(each, factor) for each in SPACE if (each.nodes, each.batch_size) in corners)
    return EarlierJob(name, tuple(trials), likeness)
