"""The SMLT paper's sections 5.3 to 5.5 on a synthetic Lambda, beside what the paper says.

A workflow is a chain of phases, each a contest of its own with a deadline (cheapest within it, search included). It is
played three ways:

    first     what was best for the first phase, kept for all: what a user does who looks once
    fixed     the cheapest single allocation that keeps every phase's deadline, known beforehand: the best there can be
              without changing it
    adaptive  the policy of mlcd.adapt.changes says when to search; the cost of every search is counted

The paper's jobs are not public; sizes and schedules are set here, and what differs from the paper is said beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from mlcd.adapt.changes import Conditions, Lesson, Replan, largest_change, reconsider
from mlcd.core.machines import Deployment
from mlcd.core.study import ProbeTime
from mlcd_bench.cases import Case
from mlcd_bench.claims import Averages, Claim, Figures, format_hours, format_usd, value_of
from mlcd_bench.functions_testbed import BERT_SMALL, RESNET_18, Net, functions_case
from mlcd_bench.presets import Contest, Preset, set_contest
from mlcd_bench.protocol import Problem, Rules, Scenario

# Functions start in seconds: a probe takes a minute, whatever their number.
RULES = Rules(probe_time=ProbeTime(60.0, 2.0, 10), carry=True, start_share=0.2)
SLACK = 2.0  # of each phase's deadline, over the least that any deployment could keep
PHASE_HOURS = 1.0  # of the fastest training of a phase
_SEARCHER = "auto"
_WAYS = {"Siren": "objects", "Cirrus": "central"}  # how the rivals synchronise
_BATCHES = (2048, 512, 128, 512, 2048)
# Parameters and operations of well-known networks, as an architecture search might come by them.
_NETS = (
    Net("ResNet-18", 11e6, 5.4e9, 512),
    Net("VGG-16", 138e6, 46e9, 512),
    Net("MobileNet-v2", 3.5e6, 0.9e9, 512),
    Net("ResNet-50", 25e6, 12.3e9, 512),
    Net("DenseNet-121", 8e6, 8.6e9, 512),
)


@dataclass(frozen=True)
class Stage:
    """One phase of a workflow: its contest, and what the policy looks at."""

    contest: Contest
    conditions: Conditions


def section_5_3_deadline() -> Preset:
    """Scenario 1: cheapest within a time limit; Siren and Cirrus synchronise as they do and know no limit."""
    contests = _rivals(Scenario.DEADLINE, 1.5)
    limit = contests[0].limit or 0.0
    claims = (
        value_of("SMLT's way (auto): total time", "within the limit", "SMLT", _SEARCHER, format_hours),
        *(
            value_of(
                f"{name}'s way, any allocation: total time",
                "over the limit",
                name,
                "random:k=1",
                lambda row: f"{row.total_hours:.1f} h, limit {limit:.1f} h",
            )
            for name in ("Siren", "Cirrus")
        ),
        *(_ratio(f"{name}'s cost ÷ SMLT's", "above 1", name, lambda row: row.total_usd) for name in _WAYS),
    )
    return Preset("smlt-5.3-deadline", "BERT-small: cheapest within a deadline", contests, claims)


def section_5_3_budget() -> Preset:
    """Scenario 2: fastest within a budget."""
    claims = (
        value_of("SMLT's way (auto): total cost", "within the budget", "SMLT", _SEARCHER, format_usd),
        *(_ratio(f"{name}'s time ÷ SMLT's", "above 1", name, lambda row: row.total_hours) for name in _WAYS),
    )
    contests = _rivals(Scenario.BUDGET, 3.0)
    return Preset("smlt-5.3-budget", "BERT-small: fastest within a budget", contests, claims)


def section_5_4() -> Preset:
    """Dynamic batching."""
    stages = [
        _stage(f"batch {batch}", replace(RESNET_18, batch=batch), Conditions(batch_size=batch)) for batch in _BATCHES
    ]
    return _workflow("smlt-5.4", "Dynamic batching, ResNet-18, batches of 2048 to 128 and back", stages, "30 %")


def section_5_5() -> Preset:
    """Architecture search: the paper says up to 3 times cheaper."""
    stages = [_stage(net.name, net, Conditions(parameters=net.parameters)) for net in _NETS]
    title = "Architecture search, networks of 3.5 M to 138 M parameters"
    return _workflow("smlt-5.5", title, stages, "67 % (3 ×)")


SMLT: dict[str, Callable[[], Preset]] = {
    "smlt-5.3-deadline": section_5_3_deadline,
    "smlt-5.3-budget": section_5_3_budget,
    "smlt-5.4": section_5_4,
    "smlt-5.5": section_5_5,
}


def _rivals(scenario: Scenario, slack: float) -> tuple[Contest, ...]:
    """The same job for all three: its size and its limit are those of SMLT's way."""
    ours = Contest("SMLT", functions_case(BERT_SMALL), scenario, PHASE_HOURS, (_SEARCHER, "heterbo"), rules=RULES)
    problem = replace(set_contest(ours), slack=slack)
    others = [
        _same_job(name, functions_case(replace(BERT_SMALL, exchange=way)), problem) for name, way in _WAYS.items()
    ]
    return (replace(ours, limit=problem.limit), *others)


def _same_job(name: str, case: Case, problem: Problem) -> Contest:
    """The same samples by another way of synchronising; its fastest takes as long as it takes."""
    hours = problem.scale / max(case.speeds.values()) / 3600.0
    contest = Contest(name, case, problem.scenario, hours, ("random:k=1",), rules=RULES)
    least = set_contest(contest).limit or 0.0
    return replace(contest, limit=max(problem.limit or 0.0, least))


def _stage(label: str, net: Net, conditions: Conditions) -> Stage:
    contest = Contest(label, functions_case(net), Scenario.DEADLINE, PHASE_HOURS, (_SEARCHER,), rules=RULES)
    least = set_contest(contest)
    return Stage(replace(contest, limit=SLACK * (least.limit or 0.0)), conditions)


def _workflow(name: str, title: str, stages: Sequence[Stage], saved: str) -> Preset:
    contests = {stage.contest.label: stage.contest for stage in stages}
    claims = (
        Claim(
            "cost saved against the first phase's allocation",
            f"over {saved}",
            lambda f: _saved(f, stages, first),
        ),
        Claim("… of whose phases break their deadline", "—", lambda found: _late(stages)),
        Claim("cost saved against the best fixed allocation", "not told", lambda f: _saved(f, stages, fixed)),
        Claim("searches of the adaptive way", "every change", lambda found: _searches(found, stages)),
        Claim("its cost", "—", lambda found: f"${adaptive(found, stages):.2f}"),
    )
    return Preset(name, title, tuple(contests.values()), claims)


def _saved(found: Figures, stages: Sequence[Stage], rival: Callable[[Sequence[Stage]], float]) -> str:
    return f"{1 - adaptive(found, stages) / rival(stages):.0%}"


def first(stages: Sequence[Stage]) -> float:
    """What all phases cost on the deployment that is best for the first."""
    best = set_contest(stages[0].contest).oracle
    return sum(_cost(stage, best) for stage in stages)


def fixed(stages: Sequence[Stage]) -> float:
    """What all phases cost on the one deployment that keeps every deadline most cheaply."""
    candidates = [each for each in stages[0].contest.case.space if all(_keeps(stage, each) for stage in stages)]
    return min((sum(_cost(stage, each) for stage in stages) for each in candidates), default=float("nan"))


def adaptive(found: Figures, stages: Sequence[Stage]) -> float:
    """What the phases cost when the policy says where to search; the first always is."""
    return sum(usd for usd, _ in _played(found, stages))


def _played(found: Figures, stages: Sequence[Stage]) -> list[tuple[float, bool]]:
    """Cost of each phase, and whether it was searched."""
    here = set_contest(stages[0].contest).oracle
    known = stages[0].conditions
    phases = [(_row(found, stages[0]).total_usd, True)]
    lessons: list[Lesson] = []
    for stage in stages[1:]:
        row, staying = _row(found, stage), _cost(stage, here)
        pays = reconsider(known, stage.conditions, staying, row.search_usd, lessons)
        if isinstance(pays, Replan) or not _keeps(stage, here):
            _, change = largest_change(known, stage.conditions)
            lessons.append(Lesson(change, 1 - (row.total_usd - row.search_usd) / staying))
            here, known = set_contest(stage.contest).oracle, stage.conditions
            phases.append((row.total_usd, True))
        else:
            phases.append((staying, False))
    return phases


def _searches(found: Figures, stages: Sequence[Stage]) -> str:
    played = _played(found, stages)
    return f"{sum(searched for _, searched in played)} of {len(played)} phases"


def _late(stages: Sequence[Stage]) -> str:
    best = set_contest(stages[0].contest).oracle
    return f"{sum(not _keeps(stage, best) for stage in stages)} of {len(stages)}"


def _row(found: Figures, stage: Stage) -> Averages:
    return found[(stage.contest.label, _SEARCHER)]


def _cost(stage: Stage, deployment: Deployment) -> float:
    """Of a phase's training there; where a function cannot hold it, on as many of the smallest size that can."""
    trainings = set_contest(stage.contest).trainings
    if deployment in trainings:
        return trainings[deployment].usd
    return min(cost.usd for each, cost in trainings.items() if each.nodes >= deployment.nodes)


def _keeps(stage: Stage, deployment: Deployment) -> bool:
    return deployment in set_contest(stage.contest).feasible


def _ratio(text: str, paper: str, name: str, of: Callable[[Averages], float]) -> Claim:
    """A rival's measure as a multiple of ours."""
    rival, ours = (name, "random:k=1"), ("SMLT", _SEARCHER)
    return Claim(text, paper, lambda found: f"{of(found[rival]) / of(found[ours]):.1f} ×")
