"""Whether the next phase of a workflow is searched, and what a search has taught. Pure.

A phase that is not searched goes on where the one before it ran. What a search gained is seen within one phase only: a sample
of another batch size or model costs more or less wherever it is trained, and that says nothing about searching.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mlcd.adapt.changes import Conditions, Lesson, Replan, largest_change, reconsider
from mlcd.adapt.limits import Keep
from mlcd.core.machines import Deployment
from mlcd.core.study import Belief, Ledger
from mlcd.core.trial import Trial


@dataclass(frozen=True)
class PhaseFacts:
    """What the decision needs of a phase that is done."""

    conditions: Conditions
    searched: bool
    search_usd: float  # lost to looking
    usd_per_sample: float  # of the training; 0: not known


def next_phase(done: Sequence[PhaseFacts], now: Conditions, lessons: Sequence[Lesson]) -> Keep | Replan:
    """Whether to search the next phase; the first always is."""
    if not done:
        return Replan("nothing is known yet")
    last = done[-1]
    rest_usd = last.usd_per_sample * (now.samples or last.conditions.samples)
    searched = last_searched(done)
    return reconsider(searched.conditions, now, rest_usd, searched.search_usd, lessons)


def last_searched(done: Sequence[PhaseFacts]) -> PhaseFacts:
    """The phase that the present deployment was chosen for."""
    return next((phase for phase in reversed(done) if phase.searched), done[-1])


def lesson_of(before: Conditions, now: Conditions, staying_usd: float, chosen_usd: float) -> Lesson | None:
    """What a search gained, by the costs of a sample under the new conditions.

    None where one of them is not known, and where the search found something dearer: that was for the limit's sake.
    """
    if staying_usd <= 0 or not 0 < chosen_usd <= staying_usd:
        return None
    return Lesson(largest_change(before, now)[1], 1.0 - chosen_usd / staying_usd)


def usd_per_sample(deployment: Deployment, trials: Iterable[Trial], beliefs: Iterable[Belief] = ()) -> float:
    """As it was measured there, or else as it is believed to be; 0: not known."""
    believed = [belief.samples_per_second for belief in beliefs if belief.deployment == deployment]
    measured = [trial.measurement for trial in trials if trial.deployment == deployment]
    speeds = [*believed, *(each.samples_per_second for each in measured if each is not None)]
    return deployment.usd(1.0) / speeds[-1] if speeds and speeds[-1] > 0 else 0.0


def lost_to_search(trials: Iterable[Trial], carried: bool) -> Ledger:
    """What probes cost without the training in them, which is not lost where checkpoints carry it on."""
    tried = [trial for trial in trials if trial.seconds > 0]
    lost = [(trial, trial.seconds - (trial.phases.measuring if carried else 0.0)) for trial in tried]
    return Ledger(sum(seconds for _, seconds in lost), sum(t.usd * seconds / t.seconds for t, seconds in lost))
