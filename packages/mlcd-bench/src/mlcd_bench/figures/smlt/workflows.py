"""Figures 11 to 13 of the SMLT paper: workflows whose batch, model or amount of data changes.

A workflow is a chain of phases, each a job with a deadline of its own, cheapest within it, search included. It is played by the
product's own decisions (`workflows`), and reckoned for rivals that are told more than a user could know:

    LambdaML      functions, the best for the first phase, known beforehand and kept: the paper's rival
    any           functions, any one allocation that keeps all deadlines, on average: the paper's "randomly-assigned" one
    best of them  the cheapest such allocation
    oracle        the cheapest of each phase, without a search: as much as adapting can save
    IaaS          machines, the best for the first phase; of online learning the cheapest by the hour that keep up, and are paid
                  while they wait
    MLCD          machines that HeterBO has found in the first phase, kept
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean

from mlcd.core.machines import Deployment
from mlcd.core.study import ProbeTime
from mlcd_bench.claims import Claim, Figures, Measure, usd
from mlcd_bench.figures.smlt.stages import (
    DAY_SECONDS,
    LONG_PHASE_HOURS,
    architectures,
    arrivals,
    arrivals_on_machines,
    batching,
    batching_on_machines,
)
from mlcd_bench.figures.smlt.testbed import RESNET_18, RESNET_50
from mlcd_bench.presets.preset import Course, Preset
from mlcd_bench.protocol import Rules
from mlcd_bench.workflows import Stage

# Functions start in seconds: a probe takes a minute, whatever their number.
FUNCTION_RULES = Rules(probe_time=ProbeTime(60.0, 2.0, 10), carry=True, start_share=0.2)
_MLCD_RULES = Rules()  # probes of ten minutes, of which nothing is kept
_SEARCHER = "auto"
_MLCD = "heterbo"

Stages = Sequence[Stage]
Cost = Callable[[Figures], float]


def fig11a() -> Preset:
    """Dynamic batching: SMLT, MLCD on machines, LambdaML, and machines that someone chose."""
    ours = batching("SMLT", RESNET_50, LONG_PHASE_HOURS)
    machines = batching_on_machines("MLCD", RESNET_50)
    claims = (
        Claim(
            "profiling cost, SMLT's ÷ MLCD's",
            "far below 1",
            lambda found: f"{_looking(found, ours, machines):.0%}",
            lambda found: _looking(found, ours, machines) < 1.0,
        ),
        _dearer("MLCD's cost ÷ SMLT's", lambda found: _total(found, machines, _MLCD), ours),
        _dearer("LambdaML's cost ÷ SMLT's", lambda _: first(ours), ours),
        _dearer("cost on machines (IaaS) ÷ SMLT's", lambda _: first(machines), ours),
    )
    title = "Cost of dynamic batching, ResNet-50: SMLT, MLCD, LambdaML, IaaS"
    return Preset("smlt-fig11a", title, (), claims, courses=(_adaptive(ours), _looked_once(machines)))


def fig11b() -> Preset:
    """Online learning: data once a day; machines wait for it, and are paid."""
    ours, machines = arrivals("SMLT", RESNET_50), arrivals_on_machines("MLCD", RESNET_50)
    claims = (
        _dearer("MLCD's cost ÷ SMLT's", lambda found: _waiting(found, machines), ours),
        _dearer("cost on machines (IaaS) ÷ SMLT's", lambda _: _keeping_up(machines), ours),
        Claim("LambdaML's cost ÷ SMLT's", "not told", lambda found: f"{first(ours) / adaptive(found, ours):.2f} ×"),
        Claim(
            "cost on machines (IaaS) ÷ LambdaML's",
            "above 1",
            lambda _: f"{_keeping_up(machines) / first(ours):.2f} ×",
            lambda _: _keeping_up(machines) > first(ours),
        ),
        Claim("share of the time that the machines (IaaS) train", "idle at times", lambda _: f"{_busy(machines):.0%}"),
    )
    title = "Cost of online learning, ResNet-50, data once a day: SMLT, MLCD, LambdaML, IaaS"
    return Preset("smlt-fig11b", title, (), claims, courses=(_adaptive(ours), _looked_once(machines)))


def fig12() -> Preset:
    """Dynamic batching."""
    title = "Dynamic batching, ResNet-18, batches of 2048 to 128 and back"
    return _workflow("smlt-fig12", title, batching("", RESNET_18), "over 30 %")


def fig13() -> Preset:
    """Architecture search."""
    title = "Architecture search, networks of 3.5 M to 138 M parameters"
    return _workflow("smlt-fig13", title, architectures(), "67 % (3 ×)")


def _workflow(name: str, title: str, stages: tuple[Stage, ...], saved: str) -> Preset:
    """What adapting saves, and where the rest of what it could save goes."""
    late = sum(not _keeps(stage, _chosen_first(stages)) for stage in stages)
    claims = (
        _saves("cost saved against LambdaML", saved, first(stages), stages),
        Claim("… of whose phases break their deadline", "not told", lambda _: f"{late} of {len(stages)}"),
        _saves("cost saved against any allocation that keeps the deadlines", saved, any_fixed(stages), stages),
        _saves("cost saved against the best of them", "above 0", best_fixed(stages), stages),
        Claim(
            "phases of the adaptive way that break their deadline",
            "not told",
            lambda found: f"{_broken(found, stages):.1f} of {len(stages)}",
            lambda found: _broken(found, stages) == 0.0,
        ),
        Claim("phases that are searched", "every change", lambda found: f"{_searched(found, stages)} of {len(stages)}"),
        Claim("an oracle saves against LambdaML", "", lambda _: f"{1 - oracle(stages) / first(stages):.0%}"),
        Claim("… of that cost, lost to looking", "", lambda found: f"{_lost(found, stages) / first(stages):.1%}"),
        Claim("… lost to training elsewhere", "", lambda found: f"{_elsewhere(found, stages) / first(stages):.1%}"),
    )
    return Preset(name, title, (), claims, courses=(_adaptive(stages),))


def _adaptive(stages: tuple[Stage, ...]) -> Course:
    return Course(stages, _SEARCHER, FUNCTION_RULES)


def _looked_once(stages: tuple[Stage, ...]) -> Course:
    return Course(stages, _MLCD, _MLCD_RULES, once=True)


def _saves(text: str, paper: str, rival_usd: float, stages: Stages) -> Claim:
    def share(found: Figures) -> float:
        return 1 - adaptive(found, stages) / rival_usd

    return Claim(text, paper, lambda found: f"{share(found):.0%}", lambda found: share(found) > 0.0)


def _dearer(text: str, rival: Cost, stages: Stages) -> Claim:
    def times(found: Figures) -> float:
        return rival(found) / adaptive(found, stages)

    return Claim(text, "above 1", lambda found: f"{times(found):.2f} ×", lambda found: times(found) > 1.0)


def adaptive(found: Figures, stages: Stages) -> float:
    """What the phases cost as the product plays them, every search included."""
    return _total(found, stages, _SEARCHER)


def first(stages: Stages) -> float:
    """What all phases cost on the deployment that is best for the first."""
    return sum(_cost(stage, _chosen_first(stages)) for stage in stages)


def any_fixed(stages: Stages) -> float:
    """What all phases cost on a deployment that keeps every deadline, on average over these."""
    return fmean(_fixed(stages))


def best_fixed(stages: Stages) -> float:
    """What all phases cost on the cheapest of these."""
    return min(_fixed(stages))


def oracle(stages: Stages) -> float:
    """What the phases cost on the best for each."""
    return sum(_cost(stage, stage.problem.oracle) for stage in stages)


def _total(found: Figures, stages: Stages, strategy: str, of: Measure = usd) -> float:
    return sum(of(found[(stage.label, strategy)]) for stage in stages)


def _broken(found: Figures, stages: Stages) -> float:
    return _total(found, stages, _SEARCHER, lambda row: row.broken_share)


def _searched(found: Figures, stages: Stages) -> str:
    return f"{_total(found, stages, _SEARCHER, lambda row: row.searched):.1f}"


def _lost(found: Figures, stages: Stages) -> float:
    return _total(found, stages, _SEARCHER, lambda row: row.lost_usd)


def _elsewhere(found: Figures, stages: Stages) -> float:
    """What training costs more than on the best of each phase: in probes, and on what was chosen."""
    return adaptive(found, stages) - _lost(found, stages) - oracle(stages)


def _looking(found: Figures, ours: Stages, machines: Stages) -> float:
    theirs = _total(found, machines, _MLCD, lambda row: row.lost_usd)
    return _lost(found, ours) / theirs


def _waiting(found: Figures, machines: Stages) -> float:
    """What MLCD's machines cost through all the days, looking included."""
    looking = _total(found, machines, _MLCD, lambda row: row.search_usd)
    training = [found[(stage.label, _MLCD)] for stage in machines]
    per_hour = fmean((row.total_usd - row.search_usd) / (row.total_hours - row.search_hours) for row in training)
    return looking + per_hour * len(machines) * DAY_SECONDS / 3600.0


def _keeping_up(machines: Stages) -> float:
    """What the machines cheapest by the hour cost through all the days, of those that learn each day's data in time."""
    return min(each.usd(len(machines) * DAY_SECONDS) for each in _all_keeping(machines))


def _busy(machines: Stages) -> float:
    """The share of the time that these train."""
    here = min(_all_keeping(machines), key=lambda each: each.usd_per_hour)
    seconds = sum(stage.problem.trainings[here].seconds for stage in machines)
    return seconds / (len(machines) * DAY_SECONDS)


def _fixed(stages: Stages) -> list[float]:
    return [sum(_cost(stage, each) for stage in stages) for each in _all_keeping(stages)]


def _all_keeping(stages: Stages) -> list[Deployment]:
    return [each for each in stages[0].problem.case.space if all(_keeps(stage, each) for stage in stages)]


def _chosen_first(stages: Stages) -> Deployment:
    return stages[0].problem.oracle


def _cost(stage: Stage, deployment: Deployment) -> float:
    """Of a phase's training there; where a function cannot hold it, on as many of the smallest size that can."""
    trainings = stage.problem.trainings
    if deployment in trainings:
        return trainings[deployment].usd
    return min(cost.usd for each, cost in trainings.items() if each.nodes >= deployment.nodes)


def _keeps(stage: Stage, deployment: Deployment) -> bool:
    cost = stage.problem.trainings.get(deployment)
    return cost is not None and stage.problem.goal.allows(cost.seconds, cost.usd)
