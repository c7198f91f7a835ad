"""The question that every library gets, the same for every peer.

A library sees a deployment as a machine, a number of nodes and a batch size, the numbers on a logarithmic scale. The
machine is its name, a category that says nothing of the others, or its price, which says a little: each peer has the
one that looked better for it (benchmarks/search/README.md); `machine=name` and `machine=price` ask for either.
It gets the logarithm of what the goal makes small (hours or dollars of the training at the measured speed), and
how far the total would pass the limit if the training started now: log(total ÷ limit) ≤ 0 is allowed. A failure counts as twice
the worst that was seen, past the limit. What it suggests is moved to the nearest deployment that exists and was not tried. The first START_PROBES are drawn at random.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log
from typing import Any

import numpy as np

from mlcd.core.machines import Deployment
from mlcd.core.study import Belief, Stop, Study
from mlcd.core.trial import Trial
from mlcd.errors import UserError
from mlcd_bench.episode import best_known

START_PROBES = 3  # the libraries' own defaults (5 to 10) would leave few of 20 probes to the model

Point = dict[str, Any]  # of a library's space: "name" or "price", "nodes", "batch", those that vary


@dataclass(frozen=True)
class PastProbe:
    """One trial as a library hears of it."""

    deployment: Deployment
    point: Point
    value: float  # log hours or log dollars of the training
    excess: float  # log(total ÷ limit); 0 or less keeps it; 0 where there is no limit


@dataclass(frozen=True)
class Question:
    """A study as a library sees it."""

    study: Study
    machine: str  # "name" or "price"

    @cached_property
    def seed(self) -> int:
        """Of this suggestion: the same study, the same answer."""
        return self.study.seed * 1009 + len(self.study.trials)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The machines for sale."""
        return tuple(dict.fromkeys(map(_machine_name, self.study.space)))

    @cached_property
    def prices(self) -> tuple[float, ...]:
        """The prices of one node for an hour, ascending."""
        return tuple(sorted({deployment.offer.usd_per_hour for deployment in self.study.space}))

    @cached_property
    def nodes(self) -> tuple[int, ...]:
        """The numbers of nodes, ascending."""
        return tuple(sorted({deployment.nodes for deployment in self.study.space}))

    @cached_property
    def batches(self) -> tuple[int, ...]:
        """The batch sizes, ascending; empty where there is none to choose."""
        return tuple(sorted({d.batch_size for d in self.study.space if d.batch_size is not None}))

    @cached_property
    def untried(self) -> tuple[Deployment, ...]:
        """What may still be suggested."""
        return tuple(deployment for deployment in self.study.space if deployment not in self.study.tried)

    @property
    def limited(self) -> bool:
        """Whether there is a limit to keep."""
        return self.study.goal.limited

    @cached_property
    def past_probes(self) -> tuple[PastProbe, ...]:
        """All trials so far."""
        values = [self._value(trial) for trial in self.study.trials]
        worst = max((value for value in values if value is not None), default=0.0) + log(2.0)
        return tuple(
            PastProbe(
                trial.deployment,
                self.point(trial.deployment),
                worst if value is None else value,
                self._excess(trial),
            )
            for trial, value in zip(self.study.trials, values, strict=True)
        )

    def point(self, deployment: Deployment) -> Point:
        """Where a deployment lies in the library's space; what never varies is no dimension."""
        point: Point = {}
        if self.machine == "name" and len(self.names) > 1:
            point["name"] = _machine_name(deployment)
        if self.machine == "price" and len(self.prices) > 1:
            point["price"] = deployment.offer.usd_per_hour
        if len(self.nodes) > 1:
            point["nodes"] = float(deployment.nodes)
        if len(self.batches) > 1:
            point["batch"] = float(deployment.batch_size or self.batches[0])
        return point

    def nearest(self, point: Point) -> Deployment:
        """The untried deployment next to a point of the library's space."""
        return min(self.untried, key=lambda deployment: self._distance(deployment, point))

    def ends(self) -> dict[str, tuple[float, float]]:
        """The smallest and the largest value of every dimension that has an order."""
        whole = {"price": self.prices, "nodes": self.nodes, "batch": self.batches}
        varying = self.point(self.study.space[0])
        return {name: (whole[name][0], whole[name][-1]) for name in varying if name != "name"}

    @property
    def by_name(self) -> bool:
        """Whether the machine is a category of the library's space."""
        return "name" in self.point(self.study.space[0])

    def _distance(self, deployment: Deployment, point: Point) -> tuple[bool, float]:
        own, ends = self.point(deployment), self.ends()
        steps = (abs(log(own[name] / point[name])) / log(high / low) for name, (low, high) in ends.items())
        return own.get("name") != point.get("name"), sum(steps)

    def _value(self, trial: Trial) -> float | None:
        if trial.measurement is None:
            return None
        study, speed = self.study, trial.measurement.samples_per_second
        seconds = max(1e-9, study.training_seconds(trial.deployment, speed))
        return log(study.goal.value(seconds, trial.deployment.usd(seconds)))

    def _excess(self, trial: Trial) -> float:
        if not self.limited:
            return 0.0
        if trial.measurement is None:
            return log(2.0)
        total = self.study.total(trial.deployment, trial.measurement.samples_per_second)
        return log(max(1e-9, self.study.goal.excess(total.seconds, total.usd)))


class Peer(ABC):
    """A library as a searcher. It never stops by itself: when it should is found in hindsight."""

    machine = "price"  # what looked better for this library

    def __init__(self, machine: str = "") -> None:
        if machine not in ("", "name", "price"):
            raise UserError(f"'{machine}' is no way to tell a library of a machine.", "Known: name, price.")
        self.machine = machine or self.machine

    def suggest(self, study: Study) -> Deployment | Stop:
        """Tell the library everything, ask it once, and forget it: the same study gives the same answer."""
        question = Question(study, self.machine)
        if not question.untried or not study.probes_left:
            return Stop(best_known(study), "no probe is left")
        if len(study.trials) < START_PROBES:
            return _at_random(question.untried, question.seed)
        return self.ask(question)

    def beliefs(self, study: Study) -> tuple[Belief, ...]:
        """The libraries do not say."""
        return ()

    @abstractmethod
    def ask(self, question: Question) -> Deployment:
        """What the library would try next."""


def _machine_name(deployment: Deployment) -> str:
    offer = deployment.offer
    return f"{offer.name}@{offer.region}" if offer.region else offer.name


def _at_random(deployments: Sequence[Deployment], seed: int) -> Deployment:
    return deployments[int(np.random.default_rng(seed).integers(len(deployments)))]
