"""The workflows of the SMLT paper's figures 11 to 13: which phases they have, on functions and on machines.

The phases of dynamic batching and of architecture search train the same number of samples each: the paper sets the batch by
epochs. In online learning data come once a day, more or less of them, and must be learnt before the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mlcd.adapt.changes import Conditions
from mlcd_bench.cases import Case
from mlcd_bench.figures.mlcd.testbed import Model, paper_case
from mlcd_bench.figures.smlt.testbed import RESNET_18, RESNET_50, Net, functions_case
from mlcd_bench.protocol import Problem, Scenario
from mlcd_bench.workflows import Stage

SLACK = 2.0  # of each phase's deadline, over the least that any allocation could keep
PHASE_HOURS = 1.0  # of the fastest training, on average over the phases
LONG_PHASE_HOURS = 8.0  # beside machines: in less than that MLCD would have no time for its probes of ten minutes
DAY_SECONDS = 24 * 3600.0
_BATCHES = (2048, 512, 128, 512, 2048)
# Parameters and operations of well-known networks, as an architecture search might come by them.
_NETS = (
    RESNET_18,
    Net("VGG-16", 138e6, 46e9, 512),
    Net("MobileNet-v2", 3.5e6, 0.9e9, 512),
    RESNET_50,
    Net("DenseNet-121", 8e6, 8.6e9, 512),
)
_ARRIVALS = (1.0, 0.25, 2.0, 0.5, 4.0, 1.0, 0.25, 2.0)  # amounts of data, one a day
_ARRIVAL_HOURS = 0.5  # of the fastest training of an amount of 1
_SIZES = ("xlarge", "2xlarge", "4xlarge", "9xlarge", "18xlarge")
_MACHINES = tuple(f"{family}.{size}" for family in ("c5", "c5n") for size in _SIZES)  # functions have no GPUs either

Part = tuple[str, Case, Conditions]


def batching(label: str, net: Net, phase_hours: float = PHASE_HOURS) -> tuple[Stage, ...]:
    """Dynamic batching on functions."""
    parts = [
        (f"batch {batch}", functions_case(replace(net, batch=batch)), Conditions(batch_size=batch))
        for batch in _BATCHES
    ]
    return _same_samples(label, parts, phase_hours)


def architectures() -> tuple[Stage, ...]:
    """Architecture search on functions."""
    parts = [(net.name, functions_case(net), Conditions(parameters=net.parameters)) for net in _NETS]
    return _same_samples("", parts, PHASE_HOURS)


def arrivals(label: str, net: Net) -> tuple[Stage, ...]:
    """Online learning on functions."""
    case = functions_case(net)
    samples = [amount * _ARRIVAL_HOURS * 3600.0 * max(case.speeds.values()) for amount in _ARRIVALS]
    return tuple(
        _stage(f"{label} day {day}", case, DAY_SECONDS, Conditions(samples=each)) for day, each in enumerate(samples, 1)
    )


def batching_on_machines(label: str, net: Net) -> tuple[Stage, ...]:
    """The same on machines, within the same deadlines."""
    theirs = zip(_BATCHES, batching(label, net, LONG_PHASE_HOURS), strict=True)
    return tuple(_on_machines(stage, replace(net, batch=batch)) for batch, stage in theirs)


def arrivals_on_machines(label: str, net: Net) -> tuple[Stage, ...]:
    """The same on machines."""
    return tuple(_on_machines(stage, net) for stage in arrivals(label, net))


def _same_samples(label: str, parts: Sequence[Part], phase_hours: float) -> tuple[Stage, ...]:
    """Phases that train as many samples as make their fastest trainings so long on average."""
    fastest = [1.0 / max(case.speeds.values()) for _, case, _ in parts]
    samples = phase_hours * 3600.0 * len(parts) / sum(fastest)
    return tuple(
        _stage(f"{label} {number}: {name}".strip(), case, SLACK * samples * each, replace(conditions, samples=samples))
        for number, ((name, case, conditions), each) in enumerate(zip(parts, fastest, strict=True), 1)
    )


def _stage(label: str, case: Case, deadline_seconds: float, conditions: Conditions) -> Stage:
    fastest = conditions.samples / max(case.speeds.values())
    slack = deadline_seconds / fastest
    return Stage(label, Problem(case, Scenario.DEADLINE, fastest / 3600.0, slack, conditions.samples), conditions)


def _on_machines(stage: Stage, net: Net) -> Stage:
    case = paper_case(Model(net.name, net.parameters, net.flops, net.batch), _MACHINES)
    deadline = stage.problem.goal.deadline_seconds or 0.0
    return _stage(stage.label, case, deadline, stage.conditions)
