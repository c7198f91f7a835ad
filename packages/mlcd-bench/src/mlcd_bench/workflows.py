"""A workflow played on the recorded truth: phases one after the other, with the product's own decisions.

    next_phase ──Keep──▶ the present deployment is tried; where it serves no more, search
               ──Replan▶ search, with the trials of the phases before it as earlier studies
    lesson_of  ◀──────── what a search has gained

`mlcd.workflow` does the same with jobs. What a search costs is counted, and what it chooses is what trains.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from mlcd.adapt.changes import Conditions, Lesson, Replan
from mlcd.adapt.phases import PhaseFacts, last_searched, lesson_of, lost_to_search, next_phase, usd_per_sample
from mlcd.core.machines import Deployment
from mlcd.core.study import Ledger, Stop, Study
from mlcd.core.trial import Trial
from mlcd.search.base import Searcher
from mlcd_bench.episode import Episode, Search, close_episode, continue_search
from mlcd_bench.protocol import Problem, Rules

MOST_STUDIES = 3  # of the same program, newest first: as many as the engine looks at


@dataclass(frozen=True)
class Stage:
    """One phase of a workflow: its job with the deadline, and what the decision looks at."""

    label: str
    problem: Problem
    conditions: Conditions


@dataclass(frozen=True)
class Played:
    """How a phase went."""

    label: str
    episode: Episode
    searched: bool
    lost_usd: float  # to looking


@dataclass(frozen=True)
class Memory:
    """What a workflow knows before its next phase."""

    facts: tuple[PhaseFacts, ...] = ()
    lessons: tuple[Lesson, ...] = ()
    studies: tuple[tuple[Trial, ...], ...] = ()  # newest first
    here: Deployment | None = None


def play_workflow(
    stages: Sequence[Stage], strategy: str, searcher: Searcher, seed: int, rules: Rules, once: bool = False
) -> Iterator[Played]:
    """All phases, one after the other; `once`: only the first is searched, and its deployment is kept."""
    memory = Memory()
    for stage in stages:
        if once and memory.here is not None:
            study = stage.problem.study(seed, rules)
            search, searched = Search(study, Stop(memory.here, "it is kept"), 1, 0.0), False
        else:
            search, searched = _find_deployment(stage, memory, searcher, seed, rules)
        episode = close_episode(stage.problem, strategy, seed, search, rules)
        here = next(each for each in stage.problem.case.space if each.key == episode.ended_on)
        lost = lost_to_search(search.study.trials, rules.carry)
        memory = _remember(memory, stage, search, searcher, here, lost if searched else Ledger())
        yield Played(stage.label, episode, searched, lost.usd)


def _find_deployment(stage: Stage, memory: Memory, searcher: Searcher, seed: int, rules: Rules) -> tuple[Search, bool]:
    """Where the phase trains, and whether it was searched for."""
    study = replace(stage.problem.study(seed, rules), earlier=memory.studies[:MOST_STUDIES])
    decision = next_phase(memory.facts, stage.conditions, memory.lessons)
    if memory.here is not None and not isinstance(decision, Replan):
        tried = continue_search(stage.problem, replace(study, space=(memory.here,)), searcher, rules)
        if tried.stop.choice is not None:
            return tried, False
        study = replace(study, spent=tried.study.spent)
    return continue_search(stage.problem, study, searcher, rules), True


def _remember(
    memory: Memory, stage: Stage, search: Search, searcher: Searcher, here: Deployment, lost: Ledger
) -> Memory:
    study, searched = search.study, len(search.study.space) > 1
    cost = usd_per_sample(here, study.trials)
    facts = PhaseFacts(stage.conditions, searched, lost.usd, cost)
    lesson = _lesson(memory, stage, study, searcher, cost) if searched else None
    return Memory(
        facts=(*memory.facts, facts),
        lessons=(*memory.lessons, *([lesson] if lesson is not None else [])),
        studies=(study.trials, *memory.studies),
        here=here,
    )


def _lesson(memory: Memory, stage: Stage, study: Study, searcher: Searcher, chosen_usd: float) -> Lesson | None:
    """What the search gained against staying; the first has nothing to compare with."""
    if memory.here is None:
        return None
    staying_usd = usd_per_sample(memory.here, study.trials, searcher.beliefs(study))
    return lesson_of(last_searched(memory.facts).conditions, stage.conditions, staying_usd, chosen_usd)
