"""The report says what each kind of machine would have cost."""

from __future__ import annotations

from dataclasses import replace

from mlcd.core.machines import Deployment, InstanceType, Offer
from mlcd.core.study import Belief
from mlcd.core.trial import Measurement
from mlcd.core.view import JobStory
from mlcd.reporting.machine_kinds import best_of_each_kind, kinds_section
from stories import story as make_story

FUNCTION = Offer("functions", InstanceType("fn-1769mb", vcpus=1), 0.104, 200, kind="function")


def with_functions(story: JobStory, samples_per_second: float, nodes: int) -> JobStory:
    """The story after one more trial, on functions."""
    last = next(trial for trial in reversed(story.view.trials) if trial.measurement is not None)
    seen = replace(
        last.measurement or Measurement(1.0, 1.0, 1.0),
        samples_per_second=samples_per_second,
        low=0.9 * samples_per_second,
        high=1.1 * samples_per_second,
    )
    trial = replace(last, deployment=Deployment(FUNCTION, nodes), outcome=seen)
    return replace(story, view=replace(story.view, trials=(*story.view.trials, trial)))


def test_with_one_kind_there_is_nothing_to_say() -> None:
    assert kinds_section(make_story()) == ""


def test_the_best_of_each_kind_is_shown_with_its_cost() -> None:
    story = with_functions(with_functions(make_story(), 400.0, 40), 40.0, 4)
    best = best_of_each_kind(story)
    assert set(best) == {"vm", "function"}
    text = str(kinds_section(story))
    assert "functions" in text
    assert "virtual machines" in text
    assert "times as much as" in text


def test_what_was_only_believed_is_not_compared() -> None:
    story = make_story()
    belief = Belief(Deployment(FUNCTION, 4), 40.0, 30.0, 50.0)
    text = str(kinds_section(replace(story, beliefs=((*story.beliefs[-1], belief),))))
    assert "times as much" not in text
    assert "None of the functions was measured" in text
