"""Presets: the figures of papers as contests on a synthetic testbed, beside what the paper says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from mlcd.errors import UserError, did_you_mean
from mlcd_bench.cases import Case
from mlcd_bench.claims import Claim
from mlcd_bench.protocol import Problem, Rules, Scenario, set_problem
from mlcd_bench.workflows import Stage

ALL = "all"  # instead of a name: every one


@dataclass(frozen=True)
class Contest:
    """Strategies on one job under one limit; those in `favoured` search a narrowed space."""

    label: str
    case: Case
    scenario: Scenario
    hours: float  # of the fastest training
    strategies: tuple[str, ...]
    limit: float | None = None  # hours or dollars
    favoured: tuple[tuple[str, tuple[str, ...]], ...] = ()  # strategy, the only instance types it looks at
    rules: Rules = Rules()


@dataclass(frozen=True)
class Course:
    """A workflow that a strategy plays, searching its phases where the product's policy says that it pays."""

    stages: tuple[Stage, ...]
    strategy: str
    rules: Rules
    once: bool = False  # only the first phase is searched


@dataclass(frozen=True)
class Curve:
    """Something over the number of nodes."""

    name: str
    nodes: tuple[int, ...]
    values: tuple[float, ...]


@dataclass(frozen=True)
class Preset:
    """One figure of a paper."""

    name: str
    title: str
    contests: tuple[Contest, ...]
    claims: tuple[Claim, ...]
    curves: tuple[Curve, ...] = ()
    courses: tuple[Course, ...] = ()


def set_contest(contest: Contest) -> Problem:
    """The contest's job under its limit; the slack is what the limit makes it."""
    least = set_problem(contest.case, contest.scenario, contest.hours, 1.0)
    if least is None:
        raise UserError(f"{contest.label} has no job.")
    if contest.limit is None or least.limit is None:
        return least
    return replace(least, slack=contest.limit / least.limit)


def find_preset(name: str) -> Preset:
    """The figure of that name."""
    known = all_presets()
    if name not in known:
        raise UserError(f"No preset is called '{name}'.", did_you_mean(name, [*known, ALL]))
    return known[name]()


def all_presets() -> dict[str, Callable[[], Preset]]:
    """Every figure of every paper, in their order; all are made of contests and import this module."""
    from mlcd_bench.figures.fc2.figures import FC2
    from mlcd_bench.figures.mlcd.figures import MLCD
    from mlcd_bench.figures.scavenger.curves import SCAVENGER_FIGURES
    from mlcd_bench.figures.scavenger.searches import SCAVENGER
    from mlcd_bench.figures.smlt.figures import SMLT

    return {**MLCD, **FC2, **SCAVENGER_FIGURES, **SCAVENGER, **SMLT}
