"""What the paper says about a figure, how to see it in our episodes, and whether its direction holds there."""

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
    improving: float  # of the probes found something better than all before
    ratio: float
    oracle_hours: float
    oracle_usd: float
    searched: float = 1.0  # share of the seeds; a phase of a workflow may go on where the one before it ran
    lost_usd: float = 0.0  # to looking, in a phase of a workflow: its search without the training in it
    chosen: tuple[str, ...] = ()  # keys of the deployments that the searches ended with


Figures = Mapping[tuple[str, str], Averages]  # contest, strategy


@dataclass(frozen=True)
class Claim:
    """Something the paper says, how to see it here, and whether its direction holds; none: it says no direction."""

    text: str
    paper: str
    ours: Callable[[Figures], str]
    holds: Callable[[Figures], bool] | None = None


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
        improving=mean(lambda episode: episode.improving),
        ratio=mean(lambda episode: episode.ratio),
        oracle_hours=mean(lambda episode: episode.oracle_hours),
        oracle_usd=mean(lambda episode: episode.oracle_usd),
        chosen=tuple(dict.fromkeys(episode.chosen for episode in episodes if episode.chosen is not None)),
    )


Measure = Callable[[Averages], float]


def hours(row: Averages) -> float:
    """Search and training."""
    return row.total_hours


def usd(row: Averages) -> float:
    """Search and training."""
    return row.total_usd


def keeps_limit(paper: str, contest: str, say: Callable[[Averages], str]) -> Claim:
    """HeterBO never passes the limit."""
    mine = (contest, "heterbo")
    text = f"{contest}: HeterBO's total under the limit"
    return Claim(text, paper, lambda f: say(f[mine]), lambda f: f[mine].broken_share == 0.0)


def breaks_limit(paper: str, contest: str, strategy: str, say: Callable[[Averages], str]) -> Claim:
    """A strategy that does not count its probes passes the limit."""
    rival = (contest, strategy)
    text = f"{contest}: {strategy}'s total over the limit"
    return Claim(text, paper, lambda f: say(f[rival]), lambda f: f[rival].broken_share > 0.0)


def less_search(paper: str, contest: str, of: Measure, unit: str) -> Claim:
    """HeterBO spends less on its search than ConvBO."""

    def share(found: Figures) -> float:
        return of(found[(contest, "heterbo")]) / of(found[(contest, "convbo")])

    text = f"{contest}: HeterBO's profiling {unit} ÷ ConvBO's"
    return Claim(text, paper, lambda f: f"{share(f):.0%}", lambda f: share(f) < 1.0)


def nearest_to_best(paper: str, contest: str, rivals: tuple[str, ...]) -> Claim:
    """HeterBO's total is the nearest to the best possible, among those that never pass the limit."""
    mine = (contest, "heterbo")

    def holds(found: Figures) -> bool:
        within = [row for name in rivals if (row := found[(contest, name)]).broken_share == 0.0]
        return found[mine].broken_share == 0.0 and all(found[mine].ratio <= row.ratio for row in within)

    text = f"{contest}: HeterBO's total ÷ the best possible, below its rivals'"
    return Claim(text, paper, lambda f: f"{f[mine].ratio:.2f}", holds)


def beats(paper: str, contest: str, rival: str, of: Measure = hours, what: str = "total time") -> Claim:
    """A rival's total is larger than HeterBO's."""

    def times(found: Figures) -> float:
        return of(found[(contest, rival)]) / of(found[(contest, "heterbo")])

    text = f"{contest}: {rival} ÷ HeterBO, {what}"
    return Claim(text, paper, lambda f: f"{times(f):.2f} ×", lambda f: times(f) > 1.0)


def saves(paper: str, contest: str) -> Claim:
    """HeterBO's total costs less than ConvBO's."""

    def share(found: Figures) -> float:
        return 1 - found[(contest, "heterbo")].total_usd / found[(contest, "convbo")].total_usd

    text = f"{contest}: cost saved by HeterBO over ConvBO"
    return Claim(text, paper, lambda f: f"{share(f):.0%}", lambda f: share(f) > 0.0)


def value_of(text: str, paper: str, contest: str, strategy: str, say: Callable[[Averages], str]) -> Claim:
    """What a strategy's averages say; no direction."""
    return Claim(text, paper, lambda found: say(found[(contest, strategy)]))


def fact(text: str, paper: str, ours: str, holds: bool) -> Claim:
    """What the testbed itself says, without a search."""
    return Claim(text, paper, lambda _: ours, lambda _: holds)


def format_hours(row: Averages) -> str:
    """Total hours and how often the limit was passed."""
    return f"{row.total_hours:.1f} h, {row.broken_share:.0%} over"


def format_usd(row: Averages) -> str:
    """Total dollars and how often the limit was passed."""
    return f"${row.total_usd:.0f}, {row.broken_share:.0%} over"
