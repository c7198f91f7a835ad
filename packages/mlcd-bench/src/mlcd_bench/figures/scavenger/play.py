"""Scavenger's partial search played on its testbed: what it takes beside an oracle that need not look.

The training starts on (K_min, B_min) until its gradient noise has settled; then each configuration that the design asks
for runs PROFILE_STEPS steps, from a checkpoint of the one before. All of these steps are progress. What is left is
trained on the configuration that the models expect to be the fastest, or the cheapest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from statistics import fmean

import numpy as np

from mlcd.forecast.design import profile_partly
from mlcd.forecast.parallel import Placement
from mlcd.forecast.statistical import Work, fit_samples
from mlcd.forecast.training_model import TrainingModel
from mlcd_bench.figures.scavenger import testbed
from mlcd_bench.figures.scavenger.testbed import Net
from mlcd_bench.models.evaluation import Mode, learn_job, predict_job

PROFILE_STEPS = 20
STEP_NOISE = 0.02
PROFILES = 6
SEEDS = 5


@dataclass(frozen=True)
class Outcome:
    """A training with its search, or without one."""

    hours: float
    usd: float
    choice: Placement


@dataclass
class _Run:
    """A training under way."""

    net: Net
    noise: np.random.Generator
    hours: float = 0.0
    usd: float = 0.0
    done: float = 0.0  # share of the training

    def train(self, where: Placement, steps: float, pause_seconds: float = 0.0) -> float:
        """Go on there for so many steps, after a pause; the step time that was seen."""
        seconds = testbed.step_seconds(self.net, where.nodes, where.batch)
        hours = (pause_seconds + steps * seconds) / 3600.0
        self.hours += hours
        self.usd += hours * where.nodes * testbed.USD_PER_HOUR
        self.done += steps / testbed.steps(self.net, where.batch)
        return seconds * (1.0 + float(self.noise.normal(0.0, STEP_NOISE / PROFILE_STEPS**0.5)))

    def finish(self, where: Placement) -> Outcome:
        """Train what is left there."""
        self.train(where, (1.0 - self.done) * testbed.steps(self.net, where.batch), self.net.checkpoint_seconds)
        return Outcome(self.hours, self.usd, where)


Goal = Callable[[Placement, float], float]  # where, seconds of the training → what should be small


def fastest(where: Placement, seconds: float) -> float:
    """The training's time."""
    return seconds


def cheapest(where: Placement, seconds: float) -> float:
    """The training's cost, but for the price that all workers have."""
    return seconds * where.nodes


@cache
def partial_search(net: Net, goal: Goal, seed: int) -> Outcome:
    """Search, then train on what the models chose."""
    run, space = _Run(net, np.random.default_rng(seed)), testbed.placements(net)
    run.train(min(space, key=lambda one: (one.nodes, one.batch)), net.settling_steps)
    model = profile_partly(space, lambda one: run.train(one, PROFILE_STEPS, net.checkpoint_seconds), PROFILES)
    ends = (net.batches[0], net.batches[-1])
    work = fit_samples([Work(batch, testbed.epochs(net, batch) * net.data) for batch in ends])
    training = TrainingModel({testbed.TYPE: model}, work)
    return run.finish(min(space, key=lambda one: goal(one, training.training_seconds(one).value)))


def oracle(net: Net, goal: Goal) -> Outcome:
    """The whole training on the best configuration."""
    best = min(testbed.placements(net), key=lambda one: goal(one, 3600.0 * testbed.hours(net, one.nodes, one.batch)))
    return Outcome(testbed.hours(net, best.nodes, best.batch), testbed.usd(net, best.nodes, best.batch), best)


def overhead(net: Net, goal: Goal) -> float:
    """How much longer, or dearer, than the oracle's, over the seeds."""
    best = oracle(net, goal)
    found = [partial_search(net, goal, seed) for seed in range(SEEDS)]
    if goal is fastest:
        return fmean(one.hours for one in found) / best.hours - 1.0
    return fmean(one.usd for one in found) / best.usd - 1.0


@cache
def model_errors(mode: Mode) -> dict[str, float]:
    """Mean error of the foretold training time of each network; other networks are the other jobs."""
    jobs = [testbed.recorded(net) for net in testbed.NETS]
    learnt = {job.name: learn_job(job) for job in jobs}
    found: dict[str, float] = {}
    for job in jobs:
        others = [learnt[name] for name in learnt if name != job.name]
        found[job.name] = fmean(one.error for one in predict_job(job, others)[mode])
    return found
