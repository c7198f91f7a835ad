"""What the paper says about a figure, and how to see it in our episodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import fmean

from mlcd_bench.episode import Episode


@dataclass(frozen=True)
class Averages:
    """A strategy's means over the seeds of a contest."""

    contest: str
    strategy: str
    total_hours: float
    total_usd: float
    search_hours: float
    search_usd: float
    probes: float
    broken_share: float
    unfinished_share: float
    ratio: float
    oracle_hours: float
    oracle_usd: float


Figures = Mapping[tuple[str, str], Averages]  # contest, strategy


@dataclass(frozen=True)
class Claim:
    """Something the paper says, and how to see it here."""

    text: str
    paper: str
    ours: Callable[[Figures], str]


def averages(contest: str, episodes: list[Episode]) -> Averages:
    """The means of one strategy's episodes."""

    def mean(value: Callable[[Episode], float]) -> float:
        return fmean(map(value, episodes))

    return Averages(
        contest=contest,
        strategy=episodes[0].strategy,
        total_hours=mean(lambda episode: episode.total_hours),
        total_usd=mean(lambda episode: episode.total_usd),
        search_hours=mean(lambda episode: episode.search_hours),
        search_usd=mean(lambda episode: episode.search_usd),
        probes=mean(lambda episode: episode.probes),
        broken_share=mean(lambda episode: episode.broken),
        unfinished_share=mean(lambda episode: not episode.finished),
        ratio=mean(lambda episode: episode.ratio),
        oracle_hours=mean(lambda episode: episode.oracle_hours),
        oracle_usd=mean(lambda episode: episode.oracle_usd),
    )


def share_of_convbo(text: str, paper: str, contest: str, of: Callable[[Averages], float]) -> Claim:
    """A measure of HeterBO's as a share of ConvBO's."""
    return Claim(
        text, paper, lambda found: f"{of(found[(contest, 'heterbo')]) / of(found[(contest, 'convbo')]):.0%}"
    )


def of_heterbo(text: str, paper: str, contest: str, of: Callable[[Averages], float]) -> Claim:
    """A measure of HeterBO's by itself."""
    return Claim(text, paper, lambda found: f"{of(found[(contest, 'heterbo')]):.2f}")


def value_of(text: str, paper: str, contest: str, strategy: str, say: Callable[[Averages], str]) -> Claim:
    """What a strategy's averages say."""
    return Claim(text, paper, lambda found: say(found[(contest, strategy)]))


def times(
    text: str,
    paper: str,
    contest: str,
    one: str,
    other: str,
    of: Callable[[Averages], float] = lambda row: row.total_hours,
) -> Claim:
    """A measure of one strategy's as a multiple of another's."""
    return Claim(
        text, paper, lambda found: f"{of(found[(contest, one)]) / of(found[(contest, other)]):.2f} ×"
    )


def saving(text: str, paper: str, contest: str) -> Claim:
    """The share of ConvBO's total cost that HeterBO saves."""
    return Claim(
        text,
        paper,
        lambda found: (
            f"{1 - found[(contest, 'heterbo')].total_usd / found[(contest, 'convbo')].total_usd:.0%}"
        ),
    )


def most_times(text: str, paper: str, rival: str) -> Claim:
    """The largest multiple of HeterBO's total time over all contests."""

    def ours(found: Figures) -> str:
        contests = dict.fromkeys(contest for contest, _ in found)
        return f"{max(found[(c, rival)].total_hours / found[(c, 'heterbo')].total_hours for c in contests):.2f} ×"

    return Claim(text, paper, ours)


def format_hours(row: Averages) -> str:
    """Total hours and how often the limit was passed."""
    return f"{row.total_hours:.1f} h, {row.broken_share:.0%} over"


def format_usd(row: Averages) -> str:
    """Total dollars and how often the limit was passed."""
    return f"${row.total_usd:.0f}, {row.broken_share:.0%} over"


def format_ratio(row: Averages) -> str:
    """Multiple of the oracle's total."""
    return f"{row.ratio:.2f}"


def format_broken(row: Averages) -> str:
    """How often the limit was passed."""
    return f"{row.broken_share:.0%} broken"


def total_usd(row: Averages) -> float:
    """Search and training."""
    return row.total_usd
