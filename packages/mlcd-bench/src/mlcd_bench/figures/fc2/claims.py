"""One experiment of the FC² paper as a contest, and the kinds of claims that the paper makes about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from mlcd.core.machines import Deployment
from mlcd_bench.cases import Case
from mlcd_bench.claims import Averages, Claim, Figures, Measure, hours, usd
from mlcd_bench.figures.fc2.testbed import server_case
from mlcd_bench.presets.preset import Contest
from mlcd_bench.protocol import Scenario

JOB_HOURS = 24.0  # of the fastest training: the paper's “days or weeks”, at the short end
SATURATION = 0.95  # p (section 7.2)
SIMILAR = 1.1  # the paper's “quite similar” and “almost the same”: at most so many times as much
COST_OPT, TIME_OPT, SCALA_OPT = "Cost-Opt", "Time-Opt", "Scala-Opt"


def by_hand(worker: str) -> str:
    """Scala-Opt-M with the type that its user names."""
    return f"Scala-Opt-M {worker}"


@dataclass(frozen=True)
class Setting:
    """The types to choose from, the server, the batch of a worker, and how many workers are allowed."""

    types: tuple[str, ...]
    server: str
    batch: int
    named: tuple[str, ...] = ()  # types that users of Scala-Opt-M name
    most_workers: int = 6
    label: str = ""
    usd_per_hour: float | None = None  # C, in place of a number of workers

    @property
    def name(self) -> str:
        """How the contest is called in tables and claims."""
        return self.label or f"batch {self.batch}"

    @cached_property
    def case(self) -> Case:
        """The truth."""
        return server_case(self.types, self.server, self.batch, self.most_workers)

    @property
    def contest(self) -> Contest:
        """FC²'s recommenders and, to compare with, mlcd's own search."""
        players = (COST_OPT, TIME_OPT, SCALA_OPT, *map(by_hand, self.named))
        return Contest(self.name, self.case, Scenario.FASTEST, JOB_HOURS, (*map(self.strategy, players), "auto"))

    def strategy(self, player: str) -> str:
        """A recommender of the paper as `mlcd bench --strategies` writes it."""
        name, _, worker = player.partition(" ")
        limit = (
            f"max_workers={self.most_workers}" if self.usd_per_hour is None else f"usd_per_hour={self.usd_per_hour:g}"
        )
        text = f"{name.lower()}:{limit}"
        if name in (COST_OPT, TIME_OPT):
            return text
        text = f"{text}:saturation={SATURATION}"
        return f"{text}:instance_type={worker}" if worker else text

    def row(self, found: Figures, player: str) -> Averages:
        """What a recommender came to here."""
        return found[(self.name, self.strategy(player))]

    def ratio(self, found: Figures, of: Measure, player: str, rival: str) -> float:
        """A measure of the one ÷ that of the other."""
        return of(self.row(found, player)) / of(self.row(found, rival))

    def chosen(self, found: Figures, player: str) -> set[tuple[str, int]]:
        """Types and numbers of workers that a recommender came to, over all seeds."""
        return {(each.offer.instance.name, each.workers) for each in self.clusters(found, player)}

    def clusters(self, found: Figures, player: str) -> list[Deployment]:
        """What a recommender came to, over all seeds."""
        known = {each.key: each for each in self.case.space}
        return [known[key] for key in self.row(found, player).chosen]


def recommends(setting: Setting, player: str, paper: str, holds: Callable[[str, int], bool]) -> Claim:
    """Which cluster a recommender comes to, at every seed."""

    def say(found: Figures) -> str:
        return " or ".join(f"{workers} × {name}" for name, workers in sorted(setting.chosen(found, player)))

    def all_hold(found: Figures) -> bool:
        chosen = setting.chosen(found, player)
        return bool(chosen) and all(holds(*each) for each in chosen)

    return Claim(f"{setting.name}: {player}'s cluster", paper, say, all_hold)


def recommends_all(setting: Setting, player: str, worker: str, allowed: int | None = None) -> Claim:
    """As many workers of a type as are allowed."""
    most = setting.most_workers if allowed is None else allowed
    return recommends(setting, player, f"{most} × {worker}", lambda name, workers: (name, workers) == (worker, most))


def recommends_fewer(setting: Setting, worker: str, told: str) -> Claim:
    """Scala-Opt comes to a type, and to fewer workers than are allowed."""
    most = setting.most_workers
    return recommends(setting, SCALA_OPT, told, lambda name, workers: name == worker and workers < most)


def within_budget(setting: Setting, player: str, usd_per_hour: float) -> Claim:
    """Workers and server together never cost more by the hour than the user allows."""

    def price(found: Figures) -> float:
        return max(each.usd_per_hour for each in setting.clusters(found, player))

    text = f"{setting.name}: price of {player}'s cluster, server included"
    return Claim(
        text, "within it", lambda found: f"${price(found):.2f} an hour", lambda found: price(found) <= usd_per_hour
    )


def as_fast_as(setting: Setting, player: str, rival: str) -> Claim:
    """Search and training take about as long."""
    return _compares(setting, hours, player, rival, "about 1", lambda ratio: ratio <= SIMILAR)


def slower_than(setting: Setting, player: str, rival: str, paper: str = "above 1") -> Claim:
    """Search and training take longer by more than counts as similar."""
    return _compares(setting, hours, player, rival, paper, lambda ratio: ratio > SIMILAR)


def dearer_than(setting: Setting, player: str, rival: str, paper: str = "above 1") -> Claim:
    """Search and training cost more."""
    return _compares(setting, usd, player, rival, paper, lambda ratio: ratio > 1.0)


def saves_over(setting: Setting, player: str, rival: str, paper: str) -> Claim:
    """Search and training cost less."""

    def share(found: Figures) -> float:
        return 1 - setting.ratio(found, usd, player, rival)

    text = f"{setting.name}: cost saved by {player} over {rival}"
    return Claim(text, paper, lambda found: f"{share(found):.0%}", lambda found: share(found) > 0.0)


def _compares(
    setting: Setting, of: Measure, player: str, rival: str, paper: str, holds: Callable[[float], bool]
) -> Claim:
    text = f"{setting.name}: {player} ÷ {rival}, total {'time' if of is hours else 'cost'}"
    return Claim(
        text,
        paper,
        lambda found: f"{setting.ratio(found, of, player, rival):.2f} ×",
        lambda found: holds(setting.ratio(found, of, player, rival)),
    )
