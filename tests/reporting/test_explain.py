"""The choice in words."""

from __future__ import annotations

from dataclasses import replace

import stories
from mlcd.core.study import Belief
from mlcd.core.view import JobStory
from mlcd.reporting.explain import Paragraph, explain


def passage(story: JobStory, title: str) -> tuple[str, ...]:
    return next(one.sentences for one in explain(story) if one.title.startswith(title))


def test_the_reason_comes_first_and_then_the_spread() -> None:
    reason, spread = passage(stories.story(), "Why")
    assert reason == "The fastest deployment measured whose total stays within the budget."
    assert "39m 30s to 42m 21s and cost $8.06 to $8.64" in spread


def test_each_rejected_deployment_has_its_own_reason() -> None:
    told = passage(stories.story(), "What was not taken")
    assert "16 × p2.xlarge, batch 256: it failed (out of memory)." in told
    assert "8 × p3.2xlarge, batch 256: its total would pass the budget of $60.00" in told
    assert any(one.startswith("1 × c5.4xlarge") and "miss the deadline by" in one for one in told)
    assert not any(one.startswith("4 × p3.2xlarge") for one in told)
    assert told[-1].startswith("32 of 40 deployments were not tried")


def test_twice_as_fast_names_the_cheapest_that_gets_there() -> None:
    best = stories.plan().forecast
    rate = stories.SAMPLES / best.seconds
    fast = [Belief(stories.deployment(2, nodes), rate * 2.2, rate * 2, rate * 3) for nodes in (7, 6)]
    story = replace(stories.story(), beliefs=((*fast,),))
    twice, half = passage(story, "What better")
    assert twice.startswith("Twice as fast (20m 22s) would take 6 × p3.2xlarge")
    assert twice.endswith("(believed, not measured).")
    assert half.startswith("Half as expensive ($4.15): nothing in this space gets there; the nearest is 6 × p3.2xlarge")


def test_a_choice_that_nothing_beats_says_so() -> None:
    view = replace(stories.planned(), trials=(stories.trial(2, 4),))
    twice, half = passage(JobStory(view), "What better")
    assert "nothing else in this space comes nearer" in twice
    assert "nothing else in this space comes nearer" in half


def test_without_a_plan_the_state_is_told() -> None:
    (only,) = explain(JobStory(stories.searching()))
    assert isinstance(only, Paragraph)
    assert only.sentences[0] == "State of the job: searching."
    assert "3 deployments were tried" in only.sentences[1]


def test_a_plan_whose_samples_depend_on_the_batch_size_says_so() -> None:
    view = stories.planned()
    assert len(passage(stories.story(view), "Why")) == 2
    varied = replace(view.record, samples_at={64: 5e6, 256: 6e6, 1024: 9e6})
    *_, samples = passage(stories.story(replace(view, record=varied)), "Why")
    assert samples == "Samples: 6,000,000 to train at batch 256; it would be 9,000,000 at batch 1024."


def test_a_plan_that_was_made_for_other_limits_says_so() -> None:
    view = stories.planned()
    raised = replace(view, goal=replace(view.goal, budget_usd=90.0))
    assert passage(stories.story(raised), "Why")[0] == f"Planned for other limits: {stories.plan().reason}"
    assert passage(stories.story(view), "Why")[0] == stories.plan().reason
