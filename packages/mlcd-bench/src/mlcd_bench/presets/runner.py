"""Running a figure of the paper, and showing it beside what the paper says."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mlcd_bench.claims import Averages, Claim, Figures, averages
from mlcd_bench.presets.preset import Contest, Course, Preset, set_contest
from mlcd_bench.runner import Bench, Report, run_bench
from mlcd_bench.strategies import Strategy, parse_strategy
from mlcd_bench.workflows import play_workflow

FIGURES = ("hours", "of it search", "$", "of it search", "probes", "broken", "none", "ratio")


@dataclass(frozen=True)
class Finding:
    """A claim of the paper beside ours."""

    claim: str
    paper: str
    ours: str
    holds: bool | None  # whether its direction holds here; None: it has none

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """As a row of a table."""
        return self.claim, self.paper, self.ours, _WORDS[self.holds]


_WORDS = {True: "yes", False: "no", None: ""}


@dataclass(frozen=True)
class Findings:
    """What a preset found."""

    rows: tuple[Averages, ...]
    claims: tuple[Finding, ...]

    @property
    def data(self) -> dict[str, Any]:
        """As JSON knows it."""
        return {"rows": [asdict(row) for row in self.rows], "claims": [asdict(each) for each in self.claims]}


def run_preset(preset: Preset, seeds: int, jobs: int, report: Report | None = None) -> Findings:
    """Play every contest of the figure."""
    rows: list[Averages] = []
    for contest in preset.contests:
        rows.extend(_play(contest, seeds, jobs, report))
    for course in preset.courses:
        rows.extend(_play_course(course, seeds))
    found = {(row.contest, row.strategy): row for row in rows}
    return Findings(tuple(rows), tuple(_finding(claim, found) for claim in preset.claims))


def _finding(claim: Claim, found: Figures) -> Finding:
    holds = None if claim.holds is None else bool(claim.holds(found))
    return Finding(claim.text, claim.paper, claim.ours(found), holds)


def preset_tables(preset: Preset, findings: Findings) -> RenderableType:
    """The figure's numbers, and each claim of the paper beside ours."""
    title = Text(f"{preset.name}: {preset.title}", style="bold")
    return Group(title, *([_rows(findings.rows)] if findings.rows else []), _claims(findings))


def bench_of(contest: Contest, seeds: int) -> Bench:
    """A contest as a benchmark of one case."""
    return Bench(
        (contest.case,),
        tuple(_strategies(contest)),
        (contest.scenario,),
        (contest.hours,),
        (set_contest(contest).slack,),
        seeds,
        rules=contest.rules,
    )


def _play(contest: Contest, seeds: int, jobs: int, report: Report | None) -> Iterable[Averages]:
    bench = bench_of(contest, seeds)
    episodes = run_bench(bench, jobs, report).episodes
    for strategy in bench.strategies:
        yield averages(contest.label, [each for each in episodes if each.strategy == strategy.text])


def _play_course(course: Course, seeds: int) -> Iterable[Averages]:
    """The means of each phase over the seeds."""
    searcher = parse_strategy(course.strategy).open()
    played = [
        tuple(play_workflow(course.stages, course.strategy, searcher, seed, course.rules, course.once))
        for seed in range(seeds)
    ]
    for phase in zip(*played, strict=True):
        row = averages(phase[0].label, [each.episode for each in phase])
        searched, lost_usd = (fmean(values) for values in zip(*((p.searched, p.lost_usd) for p in phase), strict=True))
        yield replace(row, searched=searched, lost_usd=lost_usd)


def _strategies(contest: Contest) -> Iterable[Strategy]:
    favoured = dict(contest.favoured)
    for text in contest.strategies:
        yield replace(parse_strategy(text), only=favoured.get(text, ()))


def _rows(rows: Sequence[Averages]) -> Table:
    table = Table(box=None)
    table.add_column("contest", no_wrap=True)
    table.add_column("strategy", overflow="ellipsis", no_wrap=True, max_width=24)
    for name in FIGURES:
        table.add_column(name, justify="right", no_wrap=True)
    for cells in all_cells(rows):
        table.add_row(*cells)
    return table


def all_cells(rows: Sequence[Averages]) -> Iterable[tuple[str, ...]]:
    """The figures of every strategy, then what would have been the best possible in each contest."""
    yield from map(_cells, rows)
    for contest in dict.fromkeys(row.contest for row in rows):
        best = next(row for row in rows if row.contest == contest)
        yield contest, "best possible", f"{best.oracle_hours:.2f}", "", f"{best.oracle_usd:.2f}"


def _cells(row: Averages) -> tuple[str, ...]:
    return (
        row.contest,
        row.strategy,
        f"{row.total_hours:.2f}",
        f"{row.search_hours:.2f}",
        f"{row.total_usd:.2f}",
        f"{row.search_usd:.2f}",
        f"{row.probes:.1f}",
        f"{row.broken_share:.0%}",
        f"{row.unfinished_share:.0%}",
        f"{row.ratio:.3f}",
    )


def _claims(findings: Findings) -> Table:
    table = Table("", "the paper", "here", "holds", box=None)
    for finding in findings.claims:
        table.add_row(*finding.cells)
    return table
