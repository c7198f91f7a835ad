"""What a probe or a training takes of the goal's unit and of the limits.

Glossary (N deployments):
    work               samples to train: (N,)
    prices             of all nodes, by the hour and for a rental: (N,)
    spent              seconds and dollars spent, probes under way included
    probe_seconds      what a probe adds to the time; beside a probe under way only what it takes longer than that: (N,)
    required           the least log throughput that keeps the limits; +∞: none can, −∞: there are no limits
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri

from mlcd.core.goal import Goal
from mlcd.core.study import Ledger, Study
from mlcd.search.arrays import Floats, Rows, per_value
from mlcd.search.auto.features import Features
from mlcd.search.prices import Prices
from mlcd.search.table import goal_values, table_of

RISK = 3e-3  # ε: accepted for breaking a limit with the final choice
RISK_SD = float(-ndtri(RISK))  # that risk in standard deviations


@dataclass(frozen=True)
class Costs:
    """Goal, work, prices, and what is spent so far."""

    goal: Goal
    work: Floats
    prices: Prices
    probe_seconds: Floats
    probe_usd: Floats
    start_seconds: float
    training_share: float  # of a probe's time: what it trains then counts
    spent: Ledger

    @property
    def usd(self) -> Floats:
        """Price of all nodes for an hour: (N,)."""
        return self.prices.usd_per_hour

    def take(self, rows: Rows) -> Costs:
        """Of these deployments alone."""
        return replace(
            self,
            work=self.work[rows],
            prices=self.prices.take(rows),
            probe_seconds=self.probe_seconds[rows],
            probe_usd=self.probe_usd[rows],
        )

    def after(self, seconds: float, usd: float) -> Costs:
        """When that much more is spent."""
        return replace(self, spent=Ledger(self.spent.seconds + seconds, self.spent.usd + usd))

    def value(self, seconds_of_training: Floats) -> Floats:
        """The goal's unit for the whole job: hours, dollars, or the root of their product. (…, N)."""
        training = self.start_seconds + seconds_of_training
        usd = self.spent.usd + self.prices.rental_usd(training)
        return goal_values(self.goal, self.spent.seconds + training, usd)

    def probe_value(self) -> Floats:
        """About what a probe itself adds to the value: (N,)."""
        return goal_values(self.goal, self.probe_seconds, self.probe_usd)

    def required(self) -> Floats:
        """Log throughput that the training needs to keep the limits: (N,)."""
        return self._required(self.spent.seconds, self.spent.usd)

    def required_after_probe(self) -> Floats:
        """The same for each deployment once it was probed: (N,)."""
        return self._required(self.spent.seconds + self.probe_seconds, self.spent.usd + self.probe_usd)

    def _required(self, spent_seconds: float | Floats, spent_usd: float | Floats) -> Floats:
        seconds = np.full(len(self.usd), np.inf)
        if self.goal.deadline_seconds is not None:
            seconds = np.minimum(seconds, self.goal.deadline_seconds - spent_seconds)
        if self.goal.budget_usd is not None:
            seconds = np.minimum(seconds, self.prices.affordable_seconds(self.goal.budget_usd - spent_usd))
        with np.errstate(divide="ignore", invalid="ignore"):
            needed = np.log(self.work) - np.log(np.maximum(seconds - self.start_seconds, 0.0))
        return np.where(np.isinf(seconds), -np.inf, needed)


def costs_of(study: Study, space: Features) -> Costs:
    """The costs of a study; its pending probes count as spent."""
    prices = table_of(study.space).prices
    seconds = per_value(space.nodes, lambda nodes: study.probe_time.seconds(int(nodes)))
    waiting = max((study.probe_seconds(each) for each in study.pending), default=0.0)
    committed = sum(study.probe_usd(each) for each in study.pending)
    return Costs(
        goal=study.goal,
        work=_work(study, space),
        prices=prices,
        probe_seconds=np.maximum(seconds - waiting, 0.0),
        probe_usd=prices.rental_usd(seconds),
        start_seconds=study.start_seconds,
        training_share=study.probe_training_share,
        spent=Ledger(study.spent.seconds + waiting, study.spent.usd + committed),
    )


def _work(study: Study, space: Features) -> Floats:
    """Samples to train, as many times as losses and restarts make of them."""
    # No batch size reads as a batch of one, for which no number of samples is known either.
    samples = per_value(space.log_batch, lambda batch: study.samples_at.get(round(np.exp(batch)), study.samples))
    restarts = per_value(space.lifetime, lambda seconds: study.slowdown(0.0, seconds))
    return samples * per_value(space.losses, study.slowdown) * restarts
