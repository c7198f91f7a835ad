"""The batch size and the size of the model, as a training shows them."""

from __future__ import annotations

from mlcd.core.conditions import Conditions
from mlcd.core.progress import MetricPoint, Point, Progress
from mlcd.forecast.observed_conditions import PARAMETERS, Steady, steady_conditions


def points(*stretches: tuple[int, int, float]) -> tuple[Point, ...]:
    """Stretches of (steps, batch size, seconds of a step), one after the other."""
    made = [Point(0.0, 0.0, 0.0)]
    for steps, batch, seconds in stretches:
        for _ in range(steps):
            last = made[-1]
            made.append(Point(last.seconds + seconds, last.steps + 1, last.samples + batch))
    return tuple(made)


def test_steps_that_have_been_alike_for_a_while_tell_the_batch_size() -> None:
    seen = steady_conditions(Progress(points((30, 32, 0.5))))
    assert seen == Steady(Conditions(batch_size=32.0), since=5.0)


def test_a_few_seconds_or_a_few_steps_tell_nothing() -> None:
    assert steady_conditions(Progress()) is None
    assert steady_conditions(Progress(points((100, 32, 0.05)))) is None
    assert steady_conditions(Progress(points((6, 32, 5.0)))) is None


def test_a_batch_size_that_changes_tells_nothing_until_it_has_settled() -> None:
    assert steady_conditions(Progress(points((40, 32, 0.5), (10, 128, 0.5)))) is None
    settled = steady_conditions(Progress(points((40, 32, 0.5), (20, 128, 0.5))))
    assert settled is not None
    assert settled.conditions.batch_size == 128.0


def test_a_short_last_batch_of_an_epoch_changes_nothing() -> None:
    epochs = [(7, 32, 0.5), (1, 20, 0.5)] * 6
    seen = steady_conditions(Progress(points(*epochs)))
    assert seen is not None
    assert 29.0 < seen.conditions.batch_size < 32.0


def test_another_model_counts_once_its_steps_have_been_seen_for_a_while() -> None:
    line = points((60, 32, 0.5))
    models = (MetricPoint(0.5, 1, PARAMETERS, 1e6), MetricPoint(15.0, 30, PARAMETERS, 4e6))
    before = steady_conditions(Progress(line[:40], models[:1]))
    assert before is not None
    assert before.conditions == Conditions(32.0, 1e6)
    assert steady_conditions(Progress(line[:40], models)) is None
    after = steady_conditions(Progress(line, models))
    assert after is not None
    assert after.conditions == Conditions(32.0, 4e6)
