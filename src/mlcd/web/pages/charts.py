"""The charts of a job's page as data, reckoned once for all who look at it.

What the search believed takes a while to reckon. So that looking does not slow the trainings, after a
reckoning that took t seconds the next one waits for ten times that; until then the last charts are shown.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from mlcd.api import Client
from mlcd.core.view import JobStory, JobView
from mlcd.reporting.belief_figures import belief_figures
from mlcd.reporting.figures import Figure
from mlcd.reporting.html import join
from mlcd.reporting.search_figures import order_figure, time_cost_figure
from mlcd.reporting.sections import words_section
from mlcd.reporting.training_figures import training_figures
from mlcd.web.serialize import encode

Which = Literal["search", "training"]

MOST_KEPT = 200
MOST_PANELS = 6
MOST_FRAMES = 12
MOST_POINTS = 400
REST = 10.0  # times as long as it took


@dataclass
class _CachedCharts:
    """The charts as last reckoned."""

    version: str = ""
    data: bytes = b""
    rests_until: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)


class ChartCache:
    """The charts of the jobs that are looked at."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, Which], _CachedCharts] = OrderedDict()
        self._lock = threading.Lock()

    def charts(self, client: Client, job_id: str, which: Which) -> bytes:
        """Encoded, with the version that they show."""
        view = client.view(job_id)
        version = search_version(view) if which == "search" else training_version(view)
        kept = self._of(job_id, which)
        with kept.lock:
            if kept.version != version and (not kept.data or time.monotonic() >= kept.rests_until):
                began = time.monotonic()
                made = _search(client, job_id) if which == "search" else _training(client, view)
                kept.data, kept.version = encode({"version": version, **made}), version
                kept.rests_until = time.monotonic() + REST * (time.monotonic() - began)
            return kept.data

    def _of(self, job_id: str, which: Which) -> _CachedCharts:
        with self._lock:
            kept = self._kept.setdefault((job_id, which), _CachedCharts())
            self._kept.move_to_end((job_id, which))
            while len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
            return kept


def search_version(view: JobView) -> str:
    """Changes with what the charts of the search show."""
    record, goal = view.record, view.goal
    planned = record.plan.deployment.key if record.plan else ""
    return f"{len(view.trials)}/{planned}/{goal.budget_usd}/{goal.deadline_seconds}"


def training_version(view: JobView) -> str:
    """Changes with what the charts of the training show."""
    seen = view.live.samples if view.live is not None else view.run.samples
    return f"{len(view.run.attempts)}/{seen:.0f}"


def _search(client: Client, job_id: str) -> dict[str, Any]:
    story = client.story(job_id)
    main = [time_cost_figure(story), order_figure(story)]
    words = join((words_section(story),)) if story.view.record.plan else ""
    return {
        "charts": [figure.to_data() for figure in main if figure is not None],
        "beliefs": [_newest(figure).to_data() for figure in belief_figures(story)[:MOST_PANELS]],
        "trials": len(story.view.trials),
        "words": str(words),
    }


def _training(client: Client, view: JobView) -> dict[str, Any]:
    points, metrics = client.training_curves(view.record.id, MOST_POINTS)
    story = JobStory(view=view, points=points, metrics=metrics)
    return {"charts": [figure.to_data() for figure in training_figures(story)] if view.run.attempts else []}


def _newest(figure: Figure) -> Figure:
    return replace(figure, frames=figure.frames[-MOST_FRAMES:])
