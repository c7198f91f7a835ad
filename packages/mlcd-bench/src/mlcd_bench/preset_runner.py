"""Running a figure of the paper, and showing it beside what the paper says."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mlcd_bench.claims import Averages, averages
from mlcd_bench.presets import Contest, Preset, set_contest
from mlcd_bench.runner import Bench, Report, run_bench
from mlcd_bench.strategies import Strategy, parse_strategy

FIGURES = ("hours", "of it search", "$", "of it search", "probes", "broken", "none", "ratio")


@dataclass(frozen=True)
class Findings:
    """What a preset found."""

    rows: tuple[Averages, ...]
    claims: tuple[tuple[str, str, str], ...]  # what, the paper, ours

    @property
    def data(self) -> dict[str, Any]:
        """As JSON knows it."""
        claims = [{"claim": text, "paper": paper, "ours": ours} for text, paper, ours in self.claims]
        return {"rows": [asdict(row) for row in self.rows], "claims": claims}


def run_preset(preset: Preset, seeds: int, jobs: int, report: Report | None = None) -> Findings:
    """Play every contest of the figure."""
    rows: list[Averages] = []
    for contest in preset.contests:
        rows.extend(_play(contest, seeds, jobs, report))
    found = {(row.contest, row.strategy): row for row in rows}
    return Findings(
        tuple(rows), tuple((claim.text, claim.paper, claim.ours(found)) for claim in preset.claims)
    )


def preset_tables(preset: Preset, findings: Findings) -> RenderableType:
    """The figure's numbers, and each claim of the paper beside ours."""
    return Group(
        Text(f"{preset.name}: {preset.title}", style="bold"), _rows(findings.rows), _claims(findings)
    )


def _play(contest: Contest, seeds: int, jobs: int, report: Report | None) -> Iterable[Averages]:
    strategies = tuple(_strategies(contest))
    slack = set_contest(contest).slack
    bench = Bench(
        (contest.case,),
        strategies,
        (contest.scenario,),
        (contest.hours,),
        (slack,),
        seeds,
        rules=contest.rules,
    )
    episodes = run_bench(bench, jobs, report).episodes
    for strategy in strategies:
        yield averages(contest.label, [each for each in episodes if each.strategy == strategy.text])


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
    table = Table("", "the paper", "here", box=None)
    for claim in findings.claims:
        table.add_row(*claim)
    return table
