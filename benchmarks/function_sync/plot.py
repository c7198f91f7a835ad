"""The times of all systems against the number of workers, and ours split into steps, as one page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots


def draw(results: list[dict[str, Any]], path: Path) -> None:
    """Write the page."""
    sizes = sorted({result["millions"] for result in results})
    titles = [f"{size:g} M parameters: {what}" for what in ("all", "steps at most workers") for size in sizes]
    figure = make_subplots(rows=2, cols=len(sizes), subplot_titles=titles)
    for column, size in enumerate(sizes, 1):
        chosen = sorted((each for each in results if each["millions"] == size), key=lambda each: each["workers"])
        _lines(figure, chosen, column)
        _bars(figure, chosen[-1], column)
    figure.update_yaxes(type="log", title="s per iteration", row=1)
    figure.update_xaxes(type="category", title="workers", row=1)
    figure.update_layout(barmode="stack", height=900, template="plotly_white")
    figure.write_html(path, include_plotlyjs="inline")


def _lines(figure: Any, results: list[dict[str, Any]], column: int) -> None:
    for name in results[0]["systems"]:
        figure.add_trace(
            go.Scatter(
                x=[result["workers"] for result in results],
                y=[result["systems"][name]["median_s"] for result in results],
                name=name,
                legendgroup=name,
                showlegend=column == 1,
            ),
            row=1,
            col=column,
        )


def _bars(figure: Any, result: dict[str, Any], column: int) -> None:
    names = [name for name, seen in result["systems"].items() if seen["steps_s"]]
    steps = dict.fromkeys(step for name in names for step in result["systems"][name]["steps_s"])
    for step in steps:
        spent = [result["systems"][name]["steps_s"].get(step, 0) for name in names]
        figure.add_trace(
            go.Bar(x=names, y=spent, name=step, legendgroup=step, showlegend=column == 1), row=2, col=column
        )
