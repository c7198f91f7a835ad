"""The episodes of a benchmark in a few figures: one row for each strategy, scenario and job size."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from mlcd_bench.episode import Episode
from mlcd_bench.protocol import Hours

# Whoever breaks a larger share of the limits is not compared by the ratio, which breaking them lowers.
MOST_BROKEN = 0.005


@dataclass(frozen=True)
class Row:
    """How a strategy did in a scenario with jobs of one size."""

    strategy: str
    scenario: str
    hours: Hours
    episodes: int
    mean_ratio: float
    median_ratio: float
    p90_ratio: float
    broken_share: float  # of the episodes
    unfinished_share: float  # ended without a deployment
    probes: float  # mean
    search_share: float  # mean, of the total
    seconds_per_decision: float  # mean


def summarize(episodes: Iterable[Episode]) -> tuple[Row, ...]:
    """A row for each strategy, scenario and job size, in the order in which they first appear."""
    groups: dict[tuple[str, Hours, str], list[Episode]] = defaultdict(list)
    for episode in episodes:
        groups[(episode.scenario, episode.hours, episode.strategy)].append(episode)
    return tuple(_row(group) for group in groups.values())


def conclusion(rows: Iterable[Row]) -> str:
    """Who came closest to the oracle over all scenarios and job sizes while keeping the limits."""
    by_strategy: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_strategy[row.strategy].append(row)
    compared = sorted((_compare(name, own) for name, own in by_strategy.items()), key=lambda one: one.mean)
    within = [one for one in compared if one.broken <= MOST_BROKEN]
    if not within:
        return f"No strategy kept the limits. Lowest mean: {compared[0]}."
    first, *others = within
    beyond = [one for one in compared if one.mean < first.mean]
    said = [f"Closest to the oracle: {first}.", *(f"Next: {one}." for one in others[:1])]
    return " ".join([*said, *(f"Lower by breaking the limits: {one}." for one in beyond)])


@dataclass(frozen=True)
class _Comparison:
    name: str
    mean: float
    broken: float

    def __str__(self) -> str:
        limits = "no limit" if self.broken == 0 else f"{self.broken:.1%} of the limits"
        return f"{self.name}, {self.mean:.3f} × its total on average, {limits} broken"


def _compare(name: str, rows: list[Row]) -> _Comparison:
    mean = float(np.mean([row.mean_ratio for row in rows]))
    return _Comparison(name, mean, float(np.mean([row.broken_share for row in rows])))


def _row(episodes: list[Episode]) -> Row:
    first = episodes[0]
    ratios = np.array([episode.ratio for episode in episodes])
    return Row(
        strategy=first.strategy,
        scenario=first.scenario,
        hours=first.hours,
        episodes=len(episodes),
        mean_ratio=float(ratios.mean()),
        median_ratio=float(np.median(ratios)),
        p90_ratio=float(np.percentile(ratios, 90)),
        broken_share=float(np.mean([episode.broken for episode in episodes])),
        unfinished_share=float(np.mean([not episode.finished for episode in episodes])),
        probes=float(np.mean([episode.probes for episode in episodes])),
        search_share=float(np.mean([episode.search_share for episode in episodes])),
        seconds_per_decision=float(np.mean([episode.decision_seconds for episode in episodes])),
    )
