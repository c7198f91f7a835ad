"""The pieces of a job's page that change, drawn once for all who look at it."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

from mlcd.core.progress import NodeUsage
from mlcd.core.records import Event, TaskRecord
from mlcd.core.run import JobState
from mlcd.core.view import JobStory, JobView
from mlcd.reporting import sections
from mlcd.reporting.gauges import Gauge, gauges_of, goal_in_words, limit_status
from mlcd.reporting.stopping import stopping_loses
from mlcd.reporting.training_estimates import prices_by_type, samples_by_batch
from mlcd.web.pages.charts import search_version, training_version
from mlcd.web.pages.rendering import part
from mlcd.web.site import Site
from mlcd.web.streams import Update, event

MOST_EVENTS = 150
MOST_NODES_DRAWN = 8  # more lines than that nobody tells apart; the table has them all
NAMES = ("head", "cards", "plan", "nodes", "trials", "attempts", "bill", "events", "failures", "facts")


class JobParts:
    """A source for the hub; remembers the events that it has read."""

    def __init__(self, site: Site, job_id: str) -> None:
        self._site = site
        self._job_id = job_id
        self._events: deque[Event] = deque(maxlen=MOST_EVENTS)
        self._lock = threading.Lock()

    def __call__(self, _after: int) -> Update:
        shown = self.shown()
        data = {key: shown[key] for key in ("parts", "state", "tasks", "versions", "now")}
        return Update(snapshot=event("parts", data), over=shown["resting"])

    def shown(self) -> dict[str, Any]:
        """What the page and its stream say."""
        view = self._site.client.view(self._job_id)
        tasks = tuple(self._site.client.tasks(self._job_id))
        story = JobStory(view=view, tasks=tasks, events=self._newest_events())
        return {
            "view": view,
            "parts": {name: part(f"parts/{name}.html", **_values(story)) for name in NAMES},
            "state": _state(view),
            "tasks": [_task(task) for task in reversed(tasks)],
            "versions": {"search": search_version(view), "training": training_version(view)},
            "now": _now(view),
            "resting": view.at_rest,
        }

    def _newest_events(self) -> tuple[Event, ...]:
        with self._lock:
            last = self._events[-1].number if self._events else 0
            self._events.extend(self._site.client.events(self._job_id, last))
            return tuple(self._events)


def _values(story: JobStory) -> dict[str, Any]:
    view = story.view
    return {
        "story": story,
        "view": view,
        "record": view.record,
        "goal": goal_in_words(view.goal),
        "prices": prices_by_type(view.record.plan.deployment) if view.record.plan else "",
        "samples": samples_by_batch(view.record, view.record.plan.deployment) if view.record.plan else "",
        "gauges": [_gauge(gauge, view.record.state is JobState.SUCCEEDED) for gauge in gauges_of(view)],
        "work": _work(view),
        "sections": sections,
    }


def _gauge(gauge: Gauge, done: bool) -> dict[str, Any]:
    """Search, training and what is expected as shares of the limit or of their sum."""
    whole = max(gauge.total, gauge.limit or 0.0) or 1.0
    bars, start = [], 0.0
    for kind, amount in gauge.parts.items():
        width = 100 * amount / whole
        bars.append({"kind": kind, "start": start, "width": width, "shown": gauge.show(amount)})
        start += width
    mark = 100 * gauge.limit / whole if gauge.limit is not None and gauge.limit < whole else None
    return {"gauge": gauge, "bars": bars, "mark": mark, "limit_status": limit_status(gauge, done)}


def _work(view: JobView) -> dict[str, float]:
    """Samples done and to do."""
    plan = view.record.plan
    total = view.work(view.record.deployment) if plan is not None else 0.0
    done = view.samples_done
    return {
        "done": done,
        "saved": view.saved_samples,
        "total": total,
        "share": min(1.0, done / total) if total > 0 else 0.0,
    }


def _state(view: JobView) -> dict[str, Any]:
    """What the buttons follow."""
    record = view.record
    return {
        "state": record.state.value,
        "confirmed": record.confirmed,
        "started": record.started,
        "stopping": record.stop_asked,
        "model": bool(view.model),
        "loses": stopping_loses(view),
    }


def _task(task: TaskRecord) -> dict[str, Any]:
    return {
        "id": task.id,
        "name": f"{task.kind} {task.number}: {task.deployment}",
        "nodes": task.deployment.nodes,
        "over": task.ended_at is not None,
    }


def _now(view: JobView) -> dict[str, Any] | None:
    """What the machines use, for the charts that grow while one looks: all together, and each node."""
    live = view.live
    if live is None:
        return None
    usage = live.usage
    return {
        "rate": live.samples_per_second,
        "cpu": usage.cpu_share * 100,
        "gpu": usage.gpu_share * 100,
        "network": usage.network_mbps,
        "nodes": [_of_node(node) for node in usage.nodes[:MOST_NODES_DRAWN]],
    }


def _of_node(node: NodeUsage) -> dict[str, float | None]:
    gpu = None if node.gpu_share is None else node.gpu_share * 100
    return {"cpu": node.cpu_share * 100, "gpu": gpu, "network": node.network_mbps}
