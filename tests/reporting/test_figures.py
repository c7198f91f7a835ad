"""Charts as data."""

from __future__ import annotations

from dataclasses import replace

import stories
from mlcd.core.machines import Deployment, InstanceType, Offer
from mlcd.core.progress import Point
from mlcd.core.study import Belief
from mlcd.core.view import JobStory
from mlcd.reporting.belief_figures import MOST_PANELS, belief_figures, panels_left_out
from mlcd.reporting.figures import axis, dots, scale, thinned, tidy, time_unit
from mlcd.reporting.search_figures import order_figure, time_cost_figure
from mlcd.reporting.training_figures import training_figures


def names(figure: object) -> list[str]:
    return [trace["name"] for trace in figure.frames[0] if "name" in trace]  # type: ignore[attr-defined]


def test_thinning_keeps_both_ends() -> None:
    kept = thinned(list(range(1000)), 10)
    assert (kept[0], kept[-1], len(kept)) == (0, 999, 10)
    assert thinned([1, 2]) == [1, 2]


def test_what_is_no_number_becomes_a_gap() -> None:
    assert tidy([1.23456789, float("nan"), float("inf")]) == [1.23457, None, None]


def test_far_values_are_shown_by_ratio_with_readable_ticks() -> None:
    assert scale([1.0, 2.0])["type"] == "linear"
    assert scale([])["type"] == "linear"
    far = scale([0.02, 5.0], "$")
    assert far["type"] == "log"
    assert "$0.05" in far["ticktext"]
    assert {"$0.00005", "$0.5"} <= set(scale([0.00002, 0.3], "$")["ticktext"])
    assert {"500", "20,000"} <= set(scale([100.0, 90_000.0])["ticktext"])
    assert {"1e-20", "0.01"} <= set(scale([1e-20, 0.01])["ticktext"])


def test_axes_of_a_small_job_begin_at_zero_and_count_in_dollars() -> None:
    alone = scale([0.0005], "$")
    assert (alone["rangemode"], alone["exponentformat"]) == ("tozero", "none")
    assert scale([0.0003, 0.0004])["exponentformat"] == "none"  # hours
    assert scale([1.0, 2.0])["rangemode"] == axis("s")["rangemode"] == "nonnegative"
    figure = order_figure(stories.story())
    assert figure is not None
    assert figure.right is not None
    assert figure.right["exponentformat"] == "none"
    assert figure.x["range"][0] == 0.5


def test_time_is_told_in_a_unit_that_suits_it() -> None:
    assert [time_unit(seconds)[1] for seconds in (10, 600, 40_000)] == ["s", "min", "h"]


def test_tags_in_names_are_words() -> None:
    assert axis("<b>x")["title"]["text"] == "&lt;b>x".replace(">", "&gt;")
    assert dots("<a>", [1], [1], "red", text=["<i>"])["text"] == ["&lt;i&gt;"]


def test_best_so_far_never_counts_what_passes_a_limit() -> None:
    figure = order_figure(stories.story())
    assert figure is not None
    best = figure.frames[0][0]["y"]
    assert best[:2] == [None, None]  # the first two would miss the deadline
    kept = [value for value in best if value is not None]
    assert kept == sorted(kept, reverse=True)
    assert "would pass a limit" in names(figure)
    assert "failed" in names(figure)


def test_time_and_cost_show_the_choice_and_both_limits() -> None:
    shown = names(time_cost_figure(stories.story()))
    assert {"best trade-offs", "deadline", "budget", "chosen", "p2.xlarge"} <= set(shown)


def test_a_limit_far_away_does_not_squeeze_the_picture() -> None:
    view = stories.succeeded()
    far = replace(view, goal=replace(view.goal, budget_usd=1e6))
    figure = time_cost_figure(stories.story(far))
    assert figure is not None
    assert "budget" not in names(figure)
    assert figure.title == "Time against cost (outside the picture: the budget at $1,000,000.00)"


def test_a_story_without_trials_has_no_search_charts() -> None:
    empty = JobStory(replace(stories.searching(), trials=()))
    assert order_figure(empty) is None
    assert time_cost_figure(empty) is None
    assert belief_figures(empty) == ()
    assert training_figures(empty) == ()


def test_very_many_kinds_of_machines_are_counted_not_drawn() -> None:
    kinds = [Offer("x", InstanceType(f"m{i}"), 1.0, 1) for i in range(MOST_PANELS + 3)]
    step = tuple(Belief(Deployment(offer, 1), 1.0, 0.5, 1.5) for offer in kinds)
    story = replace(stories.story(), beliefs=(step,))
    assert len(belief_figures(story)) == MOST_PANELS
    assert panels_left_out(story) == 3


def test_a_restart_leaves_no_negative_throughput() -> None:
    points = (Point(0, 0, 0), Point(10, 10, 100), Point(20, 5, 50), Point(30, 15, 150))
    throughput = training_figures(replace(stories.story(), points=points, metrics=()))[1]
    assert throughput.frames[0][0]["y"] == [10.0, 10.0]


def test_the_forecast_begins_with_what_the_probes_had_trained() -> None:
    view = stories.training()
    going_on = replace(view.run.attempts[0], samples_before=1000.0)
    story = stories.story(replace(view, run=replace(view.run, attempts=(going_on,))))
    (forecast,) = (trace for trace in training_figures(story)[0].frames[0] if trace.get("name") == "forecast")
    assert forecast["y"] == [1000.0, story.view.work(going_on.deployment)]
