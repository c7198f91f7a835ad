"""The results as a file for programs and as a table for people."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mlcd.errors import UserError
from mlcd_bench.protocol import Hours
from mlcd_bench.runner import Results
from mlcd_bench.summary import Row, conclusion

EPISODE_KEYS = (
    "trace", "workload", "batch", "strategy", "scenario", "hours", "slack", "seed", "chosen", "total_hours",
    "total_usd", "limit", "oracle_hours", "oracle_usd", "ratio", "broken", "finished", "probes", "search_share",
    "decision_seconds",
)  # fmt: skip

_SCENARIO_WORDS = {
    "fastest": "fastest, no limit (ratio of hours)",
    "deadline": "cheapest before a deadline (ratio of dollars)",
    "budget": "fastest within a budget (ratio of hours)",
}


def results_data(results: Results, rows: Iterable[Row]) -> dict[str, Any]:
    """The results as JSON knows them."""
    episodes = [asdict(episode) for episode in results.episodes]
    return {
        "episodes": [{key: episode[key] for key in EPISODE_KEYS} for episode in episodes],
        "summary": [asdict(row) for row in rows],
        "stop_rules": [
            {"strategy": strategy, "scenario": scenario, "hours": hours, "rule": str(rule)}
            for (strategy, scenario, hours), rule in results.stop_rules.items()
        ],
        "not_applicable": {strategy: list(those) for strategy, those in results.not_applicable.items()},
    }


def refuse_unwritable(*files: Path | None) -> None:
    """Raise before anything is played where a result could not be written at its end."""
    for file in filter(None, files):
        if file.is_dir():
            raise UserError(f"{file} cannot be written: it is a folder.", "Name a file in it.")
        if not file.parent.is_dir():
            raise UserError(f"{file} cannot be written: there is no folder {file.parent}.")


def write_file(path: Path, text: str) -> None:
    """Write a result, with an error that a user can act on."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}.") from error


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """Write results for programs."""
    write_file(path, json.dumps(data, indent=1, allow_nan=False) + "\n")


def summary_tables(rows: Iterable[Row], results: Results) -> RenderableType:
    """A table for each scenario and job size, best mean first, and the conclusion."""
    rows = tuple(rows)
    nowhere = tuple(set(results.not_applicable) - {row.strategy for row in rows})
    parts: list[RenderableType] = [
        _table(scenario, hours, list(group), nowhere)
        for (scenario, hours), group in groupby(rows, key=lambda row: (row.scenario, row.hours))
    ]
    parts += [Text(f"{peer}, {scenario}, {_size(hours)}: stopped {rule}, the best of 36 stop rules in hindsight.")
              for (peer, scenario, hours), rule in results.stop_rules.items()]  # fmt: skip
    parts += map(Text, not_applicable_lines(results))
    return Group(*parts, Text(conclusion(rows), style="bold"))


def not_applicable_lines(results: Results) -> Iterable[str]:
    """Which strategies could not be tried on which workloads, and why."""
    for strategy, workloads in results.not_applicable.items():
        yield f"{strategy} is not applicable to {', '.join(workloads)}: it knows no facts about these models."


def _table(scenario: str, hours: Hours, rows: list[Row], nowhere: Iterable[str]) -> Table:
    table = Table(title=f"{_SCENARIO_WORDS[scenario]}, {_size(hours)}", title_justify="left", box=None)
    table.add_column("strategy", no_wrap=True)
    names = ("mean", "median", "p90", "broken", "none", "probes", "search", "s/decision")
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    for row in sorted(rows, key=lambda row: row.mean_ratio):
        table.add_row(row.strategy, *row_cells(row))
    for strategy in nowhere:
        table.add_row(strategy, "not applicable")
    return table


def row_cells(row: Row) -> tuple[str, ...]:
    """The figures of a row as they are shown."""
    return (
        f"{row.mean_ratio:.3f}",
        f"{row.median_ratio:.3f}",
        f"{row.p90_ratio:.3f}",
        f"{row.broken_share:.1%}",
        f"{row.unfinished_share:.1%}",
        f"{row.probes:.1f}",
        f"{row.search_share:.1%}",
        f"{row.seconds_per_decision:.4f}",
    )


def _size(hours: Hours) -> str:
    return "jobs of the trace's own size" if hours == "trace" else f"{hours:g} h jobs"
