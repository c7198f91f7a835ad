"""The figures of both trainings as a table and as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as figures

Run = dict[str, Any]


def tabulate(runs: Sequence[Run]) -> str:
    """A Markdown table with a column for each training."""
    rows = [
        ("probes, and the time they took", lambda run: f"{run['probes']}, {run['search_seconds']:.0f} s"),
        ("chosen", lambda run: run["chosen"]),
        ("gradient noise scale", _noise),
        ("samples to the target: expected", lambda run: f"{run['samples_expected']:,.0f}"),
        ("… in fact", lambda run: f"{run['samples']:,.0f} ({_off(run['samples_expected'], run['samples'])})"),
        ("… of these trained by probes", lambda run: f"{run['samples_before']:,.0f}"),
        ("forecast of the training by the plan", _forecast),
        ("moved to", lambda run: f"{run['moved_to']} after {run['moved_at_samples'] or 0:,.0f} samples"),
        ("forecast with the move", lambda run: f"{run['forecast_with_move_seconds'] or 0:.0f} s"),
        ("training in fact, with the move", _fact),
        ("no step because of the move", lambda run: f"{run['move_seconds']:.1f} s"),
        ("in all", lambda run: f"{run['total_seconds']:.0f} s, ${run['total_usd']:.4f}"),
    ]
    head = ["", *(f"{run['run']} time" for run in runs)]
    body = [[name, *(str(tell(run)) for run in runs)] for name, tell in rows]
    return "\n".join(_line(cells) for cells in [head, ["---"] * len(head), *body]) + "\n"


def draw(runs: Sequence[Run], target: float) -> str:
    """Loss over time of both trainings, each move marked, as a page."""
    picture = figures.Figure()
    for number, run in enumerate(runs):
        colour = ("#1f77b4", "#d62728")[number % 2]
        for name, width in (("loss", 1), ("val_loss", 3)):
            curve = run[name]
            picture.add_scatter(
                x=[seconds for seconds, _ in curve],
                y=[value for _, value in curve],
                name=f"{run['run']} time: {name}",
                line={"color": colour, "width": width},
                opacity=0.35 if name == "loss" else 1.0,
            )
        for seconds in run["moves_at"]:
            picture.add_vline(x=seconds, line_dash="dash", line_color=colour, annotation_text=f"to {run['moved_to']}")
    picture.add_hline(y=target, line_dash="dot", annotation_text=f"target {target:g}")
    picture.update_layout(
        title="Char-RNN to a target loss, with one move on the way",
        xaxis_title="seconds of the training",
        yaxis_title="nats a character",
        yaxis_range=[target - 0.3, target + 1.5],
    )
    return str(picture.to_html(include_plotlyjs=True))


def _noise(run: Run) -> str:
    return "not stable" if run["noise_scale"] is None else f"{run['noise_scale']:,.0f} samples"


def _forecast(run: Run) -> str:
    forecast = run["forecast"]
    return f"{forecast['seconds']:.0f} s ({forecast['low_seconds']:.0f} to {forecast['high_seconds']:.0f})"


def _fact(run: Run) -> str:
    seconds, expected = run["training_seconds"], run["forecast_with_move_seconds"]
    return f"{seconds:.0f} s" + (f" ({_off(expected, seconds)})" if expected else "")


def _off(expected: float, fact: float) -> str:
    return f"{fact / expected - 1:+.0%}" if expected else ""


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
