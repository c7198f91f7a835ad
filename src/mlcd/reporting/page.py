"""One HTML file that shows a job's whole story and needs no network."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import mlcd.reporting.sections as sections
from mlcd.core.view import JobStory
from mlcd.reporting.belief_figures import belief_figures, panels_left_out
from mlcd.reporting.figures import Figure
from mlcd.reporting.gauges import head
from mlcd.reporting.html import Html, data, join, tag
from mlcd.reporting.machine_kinds import kinds_section
from mlcd.reporting.search_figures import order_figure, time_cost_figure
from mlcd.reporting.training_figures import training_figures


def write_report(story: JobStory, path: Path) -> Path:
    """Write the report there, whole or not at all."""
    return write_whole(path, render(story).encode())


def write_whole(path: Path, content: bytes) -> Path:
    """Write a file for all to read; nobody ever sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        fresh = Path(file.name)
        try:
            file.write(content)
            file.flush()
            fresh.chmod(0o644)
            return fresh.replace(path)
        finally:
            fresh.unlink(missing_ok=True)


def render(story: JobStory) -> str:
    """The page as text."""
    name = story.view.record.job.name
    style, script = (files("mlcd.reporting").joinpath(file).read_text() for file in ("page.css", "page.js"))
    plotly = files("plotly").joinpath("package_data/plotly.min.js").read_text()
    body = tag("main", tag("header", head(story.view)), *_sections(story))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"{tag('title', f'{name} · mlcd report')}<style>{style}</style></head>"
        f"<body>{body}<script>{plotly}</script><script>{script}</script></body></html>\n"
    )


def _sections(story: JobStory) -> Iterable[Html]:
    """In the order in which a reader asks: what, why, for how much, how it went, what went wrong, the details."""
    yield _section("The choice", sections.words_section(story), _charts("time-cost", [time_cost_figure(story)]))
    yield _section("What each kind would have cost", kinds_section(story))
    yield _section(
        "The search",
        _charts("order", [order_figure(story)]),
        sections.trials_section(story),
        _beliefs(story),
        sections.later_trials_section(story),
    )
    yield _section("Forecast beside fact", sections.forecast_section(story))
    yield _section("Training", _charts("training", training_figures(story)), sections.attempts_section(story))
    yield _section("Bill", sections.bill_section(story))
    yield _section("Failures", sections.failures_section(story))
    yield _section("What happened", sections.events_section(story))
    yield _section("The log's end", tag("pre", story.log_tail) if story.log_tail else Html(""))
    yield _section("Facts", sections.facts_section(story, version("mlcd")))


def _section(title: str, *parts: Html) -> Html:
    return tag("section", tag("h2", title), *parts) if any(parts) else Html("")


def _charts(identifier: str, figures: Iterable[Figure | None], slider: str = "") -> Html:
    """A group of charts that fills the width; a lone one is wide."""
    shown = [figure for figure in figures if figure is not None]
    if not shown:
        return Html("")
    boxes = [
        tag(
            "figure",
            tag("figcaption", figure.title),
            tag("div", class_="chart", data_chart=identifier, data_number=i),
        )
        for i, figure in enumerate(shown)
    ]
    values = data(f"charts-{identifier}", [figure.to_data() for figure in shown])
    return join((Html(slider), tag("div", *boxes, class_="charts" if len(shown) > 1 else "charts wide"), values))


def _beliefs(story: JobStory) -> Html:
    figures = belief_figures(story)
    if not figures:
        return Html("")
    steps, left_out = len(figures[0].frames), panels_left_out(story)
    title = tag("h3", "What the search believed")
    legend = "Mean and 95 % band of the throughput over nodes; the numbers are the trials in their order."
    more = f" {left_out} more kinds of machines and batch sizes are not drawn." if left_out else ""
    return join((title, tag("p", legend, more, class_="quiet"), _charts("beliefs", figures, _slider(steps, story))))


def _slider(steps: int, story: JobStory) -> Html:
    """Steps through the beliefs; useless with a single one."""
    if steps < 2:
        return Html("")
    first = len(story.view.trials) - steps + 1
    attributes = f'type="range" min="0" max="{steps - 1}" value="{steps - 1}" data-steps="beliefs" data-first="{first}"'
    return tag(
        "label",
        tag("span", "after trial ", tag("b", first + steps - 1)),
        Html(f"<input {attributes}>"),
        class_="slider",
    )
