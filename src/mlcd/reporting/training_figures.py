"""Charts of the training: how it went against the forecast, how fast, and what it learnt."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import isfinite

from mlcd.core.progress import MetricPoint, Point
from mlcd.core.view import JobStory
from mlcd.forecast.observed_conditions import PARAMETERS
from mlcd.reporting.figures import Figure, Trace, axis, band, colour, line, scale, thinned, time_unit

_MOST_METRICS = 8


def training_figures(story: JobStory) -> tuple[Figure, ...]:
    """Progress, throughput and one chart for each metric, as far as there is anything to show."""
    unit, name = time_unit(_longest(story))
    values: dict[str, set[float]] = {}
    for point in story.metrics:
        values.setdefault(point.name, set()).add(point.value)
    metrics = [each for each in values if each != PARAMETERS or len(values[each]) > 1][:_MOST_METRICS]
    charts = [_progress(story, unit, name), _throughput(story, unit, name)]
    charts += [_metric(story.metrics, metric, number, unit, name) for number, metric in enumerate(metrics)]
    return tuple(chart for chart in charts if chart is not None)


def _longest(story: JobStory) -> float:
    plan = story.view.record.plan
    seen = max((point.seconds for point in story.points), default=0.0)
    return max(seen, plan.forecast.high_seconds if plan is not None else 0.0)


def _progress(story: JobStory, unit: float, unit_name: str) -> Figure | None:
    if not story.points:
        return None
    points = thinned(story.points)
    fact = line("fact", [p.seconds / unit for p in points], [p.samples for p in points], "var:c1")
    frame = (*_forecast(story, unit), fact)
    return Figure("Progress beside its forecast", (frame,), axis(f"{unit_name} of training"), axis("samples"))


def _forecast(story: JobStory, unit: float) -> tuple[Trace, ...]:
    """A straight line from what probes had trained to all the work, with the band between the fast and the slow end."""
    plan, attempts = story.view.record.plan, story.view.run.attempts
    work = story.view.work(plan.deployment) if plan is not None else 0.0
    done = attempts[0].samples_before if attempts else 0.0
    if plan is None or work <= done:
        return ()
    forecast = plan.forecast
    start = min(story.view.start_seconds, forecast.low_seconds)
    slow = (forecast.high_seconds - start) or 1.0
    low, expected = (done + (work - done) * (at - start) / slow for at in (forecast.low_seconds, forecast.seconds))
    x = [start / unit, forecast.low_seconds / unit, forecast.seconds / unit, forecast.high_seconds / unit]
    area = band(x, [done, low, expected, work], [done, work, work, work], "var:muted")
    ends = [start / unit, forecast.seconds / unit]
    return (*area, line("forecast", ends, [done, work], "var:muted", dash="dash"))


def _throughput(story: JobStory, unit: float, unit_name: str) -> Figure | None:
    points = thinned(story.points, 120)
    rates = [(b.seconds, rate) for a, b in pairwise(points) if (rate := _rate(a, b)) is not None]
    if not rates:
        return None
    traces = [line("samples/s", [at / unit for at, _ in rates], [rate for _, rate in rates], "var:c3")]
    expected = _expected_rate(story)
    if expected is not None:
        ends = [rates[0][0] / unit, rates[-1][0] / unit]
        traces.append(line("as measured in the search", ends, [expected] * 2, "var:muted", dash="dash"))
    along = axis(f"{unit_name} of training")
    return Figure("Throughput", (tuple(traces),), along, axis("samples/s", rangemode="tozero"))


def _rate(before: Point, after: Point) -> float | None:
    """Samples/s between two points; None where an attempt began again from a checkpoint."""
    seconds, samples = after.seconds - before.seconds, after.samples - before.samples
    return samples / seconds if seconds > 0 and samples >= 0 else None


def _expected_rate(story: JobStory) -> float | None:
    plan = story.view.record.plan
    seen = [t.measurement for t in story.view.trials if plan is not None and t.deployment == plan.deployment]
    return next((found.samples_per_second for found in reversed(seen) if found is not None), None)


def _metric(metrics: Sequence[MetricPoint], name: str, number: int, unit: float, unit_name: str) -> Figure | None:
    points = thinned([point for point in metrics if point.name == name])
    trace = line(name, [p.seconds / unit for p in points], [p.value for p in points], colour(number + 3))
    values = [point.value for point in points if isfinite(point.value)]
    kind = scale(values) if all(value > 0 for value in values) else {"rangemode": "normal"}
    return Figure(name, ((trace,),), axis(f"{unit_name} of training"), axis(name, **kind))
