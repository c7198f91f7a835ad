"""The protocol: how large the job is, what it may cost, and what the best possible deployment would take.

For each case the job's size is such that its fastest deployment trains for H hours. Then

    fastest     no limit                                    ratio in hours
    deadline    cheapest, deadline = slack × fastest time   ratio in dollars
    budget      fastest,  budget = slack × cheapest cost    ratio in hours

The oracle knows every throughput, probes nothing, and takes the best deployment that keeps the limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from statistics import median
from typing import Literal

from mlcd.core.goal import Aim, Goal
from mlcd.core.machines import Deployment
from mlcd.core.study import Ledger, ProbeTime, Study
from mlcd.errors import UserError
from mlcd_bench.cases import Case

Hours = float | Literal["trace"]  # of the fastest training; "trace": the trace's own samples


class Scenario(StrEnum):
    """The three scenarios of the MLCD paper (section III.B)."""

    FASTEST = "fastest"
    DEADLINE = "deadline"
    BUDGET = "budget"


@dataclass(frozen=True)
class Rules:
    """What holds for every episode of a benchmark."""

    noise: float = 0.02  # standard deviation of log throughput in a measurement
    probe_time: ProbeTime = ProbeTime()
    carry: bool = False  # what a probe trains is kept, and need not be trained again
    start_share: float = 0.3  # of a probe's time, in which nothing is trained yet: set-up and warm-up

    @property
    def training_share(self) -> float:
        """Of a probe's time, in which it trains for good."""
        return 1.0 - self.start_share if self.carry else 0.0


@dataclass(frozen=True)
class Problem:
    """A case with a job size, a goal, and the oracle's answer."""

    case: Case
    scenario: Scenario
    hours: Hours
    slack: float
    scale: float  # samples of the job ÷ the case's relative work

    @cached_property
    def goal(self) -> Goal:
        """What the scenario asks for."""
        if self.scenario is Scenario.DEADLINE:
            return Goal(Aim.CHEAPEST, deadline_seconds=self.slack * self._fastest_seconds)
        if self.scenario is Scenario.BUDGET:
            return Goal(Aim.FASTEST, budget_usd=self.slack * self._cheapest_usd)
        return Goal(Aim.FASTEST)

    @property
    def limit(self) -> float | None:
        """The deadline in hours or the budget in dollars, whichever there is."""
        deadline = self.goal.deadline_seconds
        return self.goal.budget_usd if deadline is None else deadline / 3600.0

    @cached_property
    def trainings(self) -> dict[Deployment, Ledger]:
        """True time and cost of the whole training on every deployment that works."""
        return {deployment: self._training(deployment) for deployment in self.case.speeds}

    @cached_property
    def feasible(self) -> tuple[Deployment, ...]:
        """The deployments whose training alone keeps the limit."""
        allows = self.goal.allows
        return tuple(each for each, cost in self.trainings.items() if allows(cost.seconds, cost.usd))

    @cached_property
    def oracle(self) -> Deployment:
        """The best deployment that keeps the limit."""
        return min(self.feasible, key=lambda each: self.value(self.trainings[each]))

    @cached_property
    def worst(self) -> Deployment:
        """The worst deployment that keeps the limit."""
        return max(self.feasible, key=lambda each: self.value(self.trainings[each]))

    def value(self, spent: Ledger) -> float:
        """Hours or dollars, as the scenario counts."""
        return self.goal.value(spent.seconds, spent.usd)

    def study(self, seed: int, rules: Rules) -> Study:
        """What a searcher sees before the first probe."""
        samples_at = {batch: samples * self.scale for batch, samples in self.case.samples if batch is not None}
        return Study(
            goal=self.goal,
            space=self.case.space,
            samples=median(map(self.case.relative_work, self.case.space)) * self.scale,
            probe_time=rules.probe_time,
            probe_training_share=rules.training_share,
            samples_at=samples_at if self.case.batch == "all" else {},
            seed=seed,
        )

    @property
    def _fastest_seconds(self) -> float:
        return min(training.seconds for training in self.trainings.values())

    @property
    def _cheapest_usd(self) -> float:
        return min(training.usd for training in self.trainings.values())

    def _training(self, deployment: Deployment) -> Ledger:
        seconds = self.case.relative_work(deployment) * self.scale / self.case.speeds[deployment]
        return Ledger(seconds, deployment.usd(seconds))


def set_problem(case: Case, scenario: Scenario, hours: Hours, slack: float) -> Problem | None:
    """The problem of that size; None: the trace does not say how large its own job is."""
    if slack < 1:
        raise UserError(f"A slack of {slack:g} leaves nothing that keeps the limit.", "Slack must be at least 1.")
    if hours == "trace":
        return Problem(case, scenario, hours, slack, 1.0) if case.samples else None
    fastest = min(case.relative_work(each) / speed for each, speed in case.speeds.items())
    return Problem(case, scenario, hours, slack, hours * 3600.0 / fastest)
