"""The results as one HTML page that needs nothing else, not even a network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from urllib.parse import quote

import plotly.graph_objects as go
from plotly.io import to_html
from plotly.offline import get_plotlyjs

from mlcd_bench.output import not_applicable_lines, row_cells
from mlcd_bench.plots import (
    averages_figure,
    broken_figure,
    curves_figure,
    ratio_against_size,
    ratio_against_slack,
    spread_figure,
    totals_figure,
)
from mlcd_bench.presets.every import Outcome, PresetResult
from mlcd_bench.presets.preset import Preset
from mlcd_bench.presets.runner import FIGURES, Findings, all_cells, bench_of
from mlcd_bench.presets.summary import HEAD, failing_claims, summary_cells
from mlcd_bench.runner import Bench, Results
from mlcd_bench.search_plot import example_of, search_figure
from mlcd_bench.summary import Row, conclusion

EXAMPLES = 3  # strategies whose search is shown step by step

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1d2733; margin: 2rem auto; max-width: 72rem; padding: 0 1rem }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { padding: .25rem .7rem; text-align: right; border-bottom: 1px solid #e3e8ee }
th:first-child, td:first-child, th:nth-child(2), td:nth-child(2) { text-align: left }
.scroll { overflow-x: auto } .conclusion { font-weight: 600 } .note { color: #56636f }
"""
_HEAD = ("scenario", "strategy", "job", "mean", "median", "p90", "limits broken", "no deployment", "probes",
         "search", "s/decision")  # fmt: skip


def results_page(bench: Bench, results: Results, rows: tuple[Row, ...]) -> str:
    """The whole page."""
    body = "".join(
        (
            "<h1>Search strategies against the oracle</h1>",
            f"<p class='conclusion'>{escape(conclusion(rows))}</p>",
            f"<p class='note'>{escape(_protocol(bench, results))}</p>",
            _table(rows),
            *(f"<p class='note'>{escape(line)}</p>" for line in not_applicable_lines(results)),
            *_sections(bench, results),
        )
    )
    return _page("mlcd bench", body)


def preset_page(preset: Preset, findings: Findings, library: str = "") -> str:
    """A figure of a paper: each claim beside ours, and the numbers behind them; `library`: plotly.js as a file beside it."""
    rows = list(all_cells(findings.rows))
    width = max(map(len, rows), default=0)
    body = "".join(
        (
            f"<h1>{escape(f'{preset.name}: {preset.title}')}</h1>",
            _grid(("claim", "the paper", "here", "holds"), (finding.cells for finding in findings.claims)),
            *_preset_sections(preset, findings),
            _grid(("contest", "strategy", *FIGURES), [(*row, *[""] * (width - len(row))) for row in rows]),
        )
    )
    return _page(f"mlcd bench {preset.name}", body, f"<script src='{library}'></script>" if library else None)


def index_page(outcomes: Sequence[Outcome], conclusion: str) -> str:
    """All presets that were played, each with a link to its page, and the claims that do not hold."""
    pages = {outcome.name: f"{quote(outcome.name)}.html" for outcome in outcomes if isinstance(outcome, PresetResult)}
    parts = (
        "<h1>The figures of the papers</h1>",
        f"<p class='conclusion'>{escape(conclusion)}</p>",
        _grid(HEAD, map(summary_cells, outcomes), pages),
        "<h2>Claims that do not hold</h2>",
        _grid(("preset", "claim", "the paper", "here"), failing_claims(outcomes)),
    )
    return _page("mlcd bench --preset all", "".join(parts), "")


def _preset_sections(preset: Preset, findings: Findings) -> Iterable[str]:
    """Curves where the figure has some; totals, and the first search step by step, where something was played."""
    if preset.curves:
        yield _section("Speed over the number of nodes", curves_figure(preset.curves))
    if findings.rows:
        yield _section("Mean time and cost, split into search and training", averages_figure(findings.rows))
    for contest in preset.contests[:1]:
        bench = bench_of(contest, seeds=1)
        example = example_of(bench, bench.strategies[0])
        if example is not None:
            name = f"{contest.label}: a search by {bench.strategies[0].text}, step by step"
            yield _section(name, search_figure(example))


def _page(title: str, body: str, script: str | None = None) -> str:
    """A page with the script that draws; None: plotly.js itself."""
    drawing = f"<script>{get_plotlyjs()}</script>" if script is None else script
    head = f"<meta charset='utf-8'><title>{escape(title)}</title><style>{_STYLE}</style>{drawing}"
    return f"<!doctype html><html lang='en'><head>{head}</head><body>{body}</body></html>\n"


def _protocol(bench: Bench, results: Results) -> str:
    rules = bench.rules
    carried = f" What probes train counts, but for the first {rules.start_share:.0%}." if rules.carry else ""
    return (
        f"{len(results.episodes):,} episodes on {len(bench.cases)} cases. A probe takes "
        f"{rules.probe_time.first_seconds / 60:g} minutes on one node and {rules.probe_time.step_seconds / 60:g} more "
        f"for every {rules.probe_time.nodes_per_step} further nodes; measurements carry {rules.noise:.0%} log-normal "
        f"noise.{carried} Ratio: total time or cost, search and training, ÷ the oracle's."
    )


def _table(rows: Iterable[Row]) -> str:
    return _grid(_HEAD, map(_cells, rows))


def _grid(names: Iterable[str], rows: Iterable[Iterable[str]], pages: Mapping[str, str] | None = None) -> str:
    """A table; what a row's first cell names leads to its page, where it has one."""
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(f"<tr>{_row(tuple(row), pages or {})}</tr>" for row in rows)
    return f"<div class='scroll'><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def _cells(row: Row) -> tuple[str, ...]:
    job = "trace" if row.hours == "trace" else f"{row.hours:g} h"
    return (row.scenario, row.strategy, job, *row_cells(row))


def _row(cells: Sequence[str], pages: Mapping[str, str]) -> str:
    first, *rest = map(escape, cells)
    if cells[0] in pages:
        first = f"<a href='{pages[cells[0]]}'>{first}</a>"
    return "".join(f"<td>{cell}</td>" for cell in (first, *rest))


def _sections(bench: Bench, results: Results) -> Iterable[str]:
    episodes = results.episodes
    yield _section("Total time and cost, split into profiling and training", totals_figure(episodes))
    yield _section("Spread of the ratio", spread_figure(episodes))
    yield _section("Limits broken, and searches without a deployment", broken_figure(episodes))
    if len(bench.hours) > 1:
        yield _section("Ratio against job size", ratio_against_size(episodes))
    if len(bench.slacks) > 1:
        yield _section("Sensitivity to the deadline and the budget", ratio_against_slack(episodes))
    for strategy in [each for each in bench.strategies if not each.peer][:EXAMPLES]:
        example = example_of(bench, strategy)
        if example is not None:
            yield _section(f"A search by {strategy.text}, step by step", search_figure(example))
    if results.stop_rules:
        yield f"<h2>When the peers were stopped</h2><ul>{''.join(_stop_rules(results))}</ul>"


def _section(title: str, figure: go.Figure) -> str:
    figure.update_layout(template="plotly_white", margin={"l": 60, "r": 20, "t": 60, "b": 50})
    drawn = to_html(figure, full_html=False, include_plotlyjs=False, config={"displaylogo": False})
    return f"<h2>{escape(title)}</h2>{drawn}"


def _stop_rules(results: Results) -> Iterable[str]:
    for (peer, scenario, hours), rule in results.stop_rules.items():
        yield f"<li>{escape(f'{peer}, {scenario}, {hours} h: {rule}')}</li>"
