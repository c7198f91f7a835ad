"""The papers' comparisons as figures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from mlcd_bench.claims import Averages
from mlcd_bench.episode import Episode
from mlcd_bench.presets.preset import Curve

COLORS = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#e69f00",
    "#56b4e9",
    "#6b6b6b",
    "#8c564b",
    "#17becf",
    "#bcbd22",
)
_TRAINING = "#c9d6df"
_SCENARIO_UNITS = {"fastest": "hours", "deadline": "dollars", "budget": "hours"}


def totals_figure(episodes: Sequence[Episode]) -> go.Figure:
    """Mean time and cost of each strategy as multiples of the oracle's, split into profiling and training."""
    scenarios = _ordered(episode.scenario for episode in episodes)
    titles = [f"{scenario}: {unit}" for unit in ("time", "cost") for scenario in scenarios]
    figure = make_subplots(rows=2, cols=len(scenarios), subplot_titles=titles, vertical_spacing=0.2)
    for column, scenario in enumerate(scenarios, start=1):
        own = [episode for episode in episodes if episode.scenario == scenario]
        for row, parts in ((1, _time_parts), (2, _cost_parts)):
            for bar in _bars(own, parts, legend=(row, column) == (1, 1)):
                figure.add_trace(bar, row=row, col=column)
            figure.add_hline(1.0, line_dash="dot", line_color="#888", row=row, col=column)
    return figure.update_layout(barmode="stack", height=640, yaxis_title="× the oracle's")


def averages_figure(rows: Sequence[Averages]) -> go.Figure:
    """Mean hours and dollars of every strategy in every contest, split into search and training."""
    figure = make_subplots(rows=2, cols=1, subplot_titles=("hours", "dollars"), vertical_spacing=0.25)
    names = [[row.contest for row in rows], [row.strategy for row in rows]]
    hours = ([row.search_hours for row in rows], [row.total_hours for row in rows])
    usd = ([row.search_usd for row in rows], [row.total_usd for row in rows])
    for place, (search, total) in ((1, hours), (2, usd)):
        rest = [all_ - part for part, all_ in zip(search, total, strict=True)]
        for name, values, color in (("search", search, COLORS[1]), ("training", rest, _TRAINING)):
            bar = go.Bar(x=names, y=values, name=name, marker_color=color, showlegend=place == 1)
            figure.add_trace(bar, row=place, col=1)
    return figure.update_layout(barmode="stack", height=720)


def curves_figure(curves: Sequence[Curve]) -> go.Figure:
    """Samples per second over the number of nodes, one line for each curve."""
    figure = go.Figure()
    for at, curve in enumerate(curves):
        line = {"color": COLORS[at % len(COLORS)]}
        figure.add_trace(go.Scatter(x=curve.nodes, y=curve.values, mode="lines", name=curve.name, line=line))
    figure.update_xaxes(title="nodes").update_yaxes(title="samples per second")
    return figure.update_layout(height=480)


def ratio_against_size(episodes: Sequence[Episode]) -> go.Figure:
    """Mean ratio of each strategy against the job's size."""
    sized = [episode for episode in episodes if episode.hours != "trace"]
    return _lines(sized, lambda episode: float(episode.hours), "hours of the fastest training", log_x=True)


def ratio_against_slack(episodes: Sequence[Episode]) -> go.Figure:
    """Mean ratio of each strategy against the limit, as a multiple of the least that is possible."""
    limited = [episode for episode in episodes if episode.limit is not None]
    return _lines(limited, lambda episode: episode.slack, "limit ÷ the least possible", log_x=False)


def spread_figure(episodes: Sequence[Episode]) -> go.Figure:
    """How the ratio of each strategy is spread."""
    scenarios = _ordered(episode.scenario for episode in episodes)
    figure = make_subplots(rows=1, cols=len(scenarios), subplot_titles=scenarios)
    for column, scenario in enumerate(scenarios, start=1):
        for strategy, color in _colored(episodes):
            ratios = [e.ratio for e in episodes if (e.strategy, e.scenario) == (strategy, scenario)]
            box = go.Box(y=ratios, name=strategy, marker_color=color, boxmean=True, showlegend=False)
            figure.add_trace(box, row=1, col=column)
    figure.update_yaxes(type="log")
    return figure.update_layout(height=420, yaxis_title="total ÷ the oracle's")


def broken_figure(episodes: Sequence[Episode]) -> go.Figure:
    """Share of broken limits and of searches without a deployment."""
    strategies = _ordered(episode.strategy for episode in episodes)
    figure = go.Figure()
    kinds: tuple[tuple[str, Callable[[Episode], bool]], ...] = (
        ("limit broken", lambda episode: episode.broken),
        ("no deployment", lambda episode: not episode.finished),
    )
    for name, wrong in kinds:
        shares = [fmean(wrong(e) for e in episodes if e.strategy == strategy) for strategy in strategies]
        figure.add_trace(go.Bar(name=name, x=strategies, y=shares))
    return figure.update_layout(height=360, yaxis_tickformat=".0%", yaxis_title="of the episodes")


def _lines(episodes: Sequence[Episode], place: Callable[[Episode], float], title: str, log_x: bool) -> go.Figure:
    scenarios = _ordered(episode.scenario for episode in episodes) or ["none"]
    figure = make_subplots(rows=1, cols=len(scenarios), subplot_titles=[_in_unit(each) for each in scenarios])
    for column, scenario in enumerate(scenarios, start=1):
        for strategy, color in _colored(episodes):
            own = [e for e in episodes if (e.strategy, e.scenario) == (strategy, scenario)]
            line = _line(own, place, strategy, color, legend=column == 1)
            figure.add_trace(line, row=1, col=column)
    figure.update_xaxes(title=title, type="log" if log_x else "linear")
    return figure.update_layout(height=420, yaxis_title="mean total ÷ the oracle's")


def _line(
    episodes: Iterable[Episode], place: Callable[[Episode], float], name: str, color: str, legend: bool
) -> go.Scatter:
    ratios: dict[float, list[float]] = defaultdict(list)
    for episode in episodes:
        ratios[place(episode)].append(episode.ratio)
    xs = sorted(ratios)
    ys = [fmean(ratios[x]) for x in xs]
    style: dict[str, Any] = {"mode": "lines+markers", "legendgroup": name, "showlegend": legend}
    return go.Scatter(x=xs, y=ys, name=name, line={"color": color}, **style)


def _bars(
    episodes: Sequence[Episode], parts: Callable[[Episode], tuple[float, float]], legend: bool
) -> Iterable[go.Bar]:
    strategies = _ordered(episode.strategy for episode in episodes)
    means = [[fmean(parts(e)[part] for e in episodes if e.strategy == each) for each in strategies] for part in (0, 1)]
    for name, heights, color in (("profiling", means[0], COLORS[1]), ("training", means[1], _TRAINING)):
        yield go.Bar(name=name, x=strategies, y=heights, marker_color=color, legendgroup=name, showlegend=legend)


def _time_parts(episode: Episode) -> tuple[float, float]:
    search, whole = episode.search_hours / episode.oracle_hours, episode.total_hours / episode.oracle_hours
    return search, whole - search


def _cost_parts(episode: Episode) -> tuple[float, float]:
    search, whole = episode.search_usd / episode.oracle_usd, episode.total_usd / episode.oracle_usd
    return search, whole - search


def _in_unit(scenario: str) -> str:
    return f"{scenario} ({_SCENARIO_UNITS.get(scenario, '')})"


def _colored(episodes: Sequence[Episode]) -> list[tuple[str, str]]:
    strategies = _ordered(episode.strategy for episode in episodes)
    return [(strategy, COLORS[at % len(COLORS)]) for at, strategy in enumerate(strategies)]


def _ordered(words: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(words))
