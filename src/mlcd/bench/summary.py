"""The episodes of a benchmark in a few figures: one row for each strategy, scenario and job size."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from mlcd.bench.episode import Episode
from mlcd.bench.protocol import Hours


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


def verdict(rows: Iterable[Row]) -> str:
    """Who came closest to the oracle over all scenarios and job sizes, and who kept every limit."""
    by_strategy: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_strategy[row.strategy].append(row)
    means = {name: float(np.mean([row.mean_ratio for row in own])) for name, own in by_strategy.items()}
    broken = {name: float(np.mean([row.broken_share for row in own])) for name, own in by_strategy.items()}
    first, *others = sorted(means, key=means.__getitem__)
    text = f"{first} comes closest to the oracle: {_said(first, means, broken)}"
    return f"{text}; next {_said(others[0], means, broken, named=True)}." if others else f"{text}."


def _said(name: str, means: dict[str, float], broken: dict[str, float], named: bool = False) -> str:
    limits = "no limit broken" if broken[name] == 0 else f"{broken[name]:.1%} of the limits broken"
    return f"{f'{name} with ' if named else ''}{means[name]:.3f} × its total on average, {limits}"


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
