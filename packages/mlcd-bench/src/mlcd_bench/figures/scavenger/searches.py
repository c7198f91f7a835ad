"""Scavenger's search (section V.B of its paper) on a synthetic testbed, beside what the paper says.

The paper's measurements are not public. Its machines, their price, nodes and batch sizes are taken from it; a step on K
workers with a global batch B takes

    τ = β·B/K + σ·K                                 equations 8 to 10, times a quirk of ±3 % that no law would know
    samples = D·(e* + θ/√B)                         equations 4, 6 and 7

with β and σ set so that steps take about a second, as in the paper: 20 of them take 17 to 35 s. A probe is these and
the time to move, which the paper measured. The job is as long as the paper's: its oracle takes 0.83 h ÷ 13 % = 6.4 h.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mlcd.core.machines import Deployment, InstanceType, Offer
from mlcd.core.study import ProbeTime
from mlcd_bench.cases import Case
from mlcd_bench.claims import Averages, Claim, Figures
from mlcd_bench.presets.preset import Contest, Preset
from mlcd_bench.protocol import Rules, Scenario

E2_STANDARD_4 = Offer("gcp", InstanceType("e2-standard-4", vcpus=4, memory_gib=16), 0.13402, 20)
WORKERS = (8, 12, 16, 20)
BATCHES = (384, 512, 768, 1024)
PROFILING_SECONDS = 26.0  # 20 steps: 17 to 35 s
HOURS = 6.4
QUIRK = 0.03
STRATEGIES = ("scavenger", "scavenger:mode=full", "random:k=1", "auto")


@dataclass(frozen=True)
class Model:
    """A model of the paper: how long its steps take, how its epochs depend on the batch, how long a move takes."""

    name: str
    sample_seconds: float  # β
    sync_seconds: float  # σ
    epochs: float  # e*
    epochs_of_noise: float  # θ
    move_seconds: float

    def samples(self, batch: int) -> float:
        """Relative: the job's size is set by its hours."""
        return self.epochs + self.epochs_of_noise / float(np.sqrt(batch))

    def speed(self, deployment: Deployment) -> float:
        """Samples a second."""
        batch = deployment.batch_size or 1
        step = self.sample_seconds * batch / deployment.nodes + self.sync_seconds * deployment.nodes
        quirk = np.random.default_rng(list(f"{self.name} {deployment.key}".encode())).uniform(1 - QUIRK, 1 + QUIRK)
        return batch / step * float(quirk)


RESNET_18 = Model("ResNet-18", 0.022, 0.020, 30.0, 600.0, 37.0)
RESNET_50 = Model("ResNet-50", 0.030, 0.025, 40.0, 500.0, 40.0)
TRANSFORMER = Model("Transformer", 0.026, 0.045, 20.0, 300.0, 127.0)


def scavenger_case(model: Model) -> Case:
    """The model on all workers and batch sizes of the paper's figure 10."""
    space = (Deployment(E2_STANDARD_4, workers, batch) for workers in WORKERS for batch in BATCHES)
    truth = tuple((deployment, model.speed(deployment)) for deployment in space)
    return Case(
        "scavenger-testbed", model.name, "all", truth, tuple((batch, model.samples(batch)) for batch in BATCHES)
    )


def section_5_b() -> Preset:
    """The partial search beside an oracle that runs the whole job on the best configuration."""
    contests = tuple(
        _contest(model, aim) for model in (RESNET_18, RESNET_50, TRANSFORMER) for aim in Scenario if _used(aim)
    )
    claims = [claim for contest in contests for claim in _claims(contest)]
    title = "The cost of Scavenger's search, 8–20 e2-standard-4, batches of 384 to 1024"
    return Preset("scavenger-5b", title, contests, tuple(claims))


SCAVENGER: dict[str, Callable[[], Preset]] = {"scavenger-5b": section_5_b}


def _used(scenario: Scenario) -> bool:
    return scenario in (Scenario.FASTEST, Scenario.DEADLINE)


def _contest(model: Model, scenario: Scenario) -> Contest:
    """The fastest; or the cheapest within three times that, which leaves every number of workers."""
    limit = None if scenario is Scenario.FASTEST else 3 * HOURS
    rules = Rules(probe_time=ProbeTime(PROFILING_SECONDS + model.move_seconds, 0.0))
    label = f"{model.name}, {'fastest' if limit is None else 'cheapest'}"
    return Contest(label, scavenger_case(model), scenario, HOURS, STRATEGIES, limit, rules=rules)


def _claims(contest: Contest) -> tuple[Claim, ...]:
    ours, full, any_one = ((contest.label, name) for name in STRATEGIES[:3])
    fastest = contest.scenario is Scenario.FASTEST
    most, what, rival = (1.13, "time", "up to 2 ×") if fastest else (1.09, "cost", "up to 1.7 ×")

    def times(found: Figures) -> float:
        return found[any_one].ratio / found[ours].ratio

    return (
        Claim(
            f"{contest.label}: total {what} ÷ the best possible",
            f"{most}",
            lambda found: f"{found[ours].ratio:.3f}",
            lambda found: found[ours].ratio <= most and found[ours].broken_share == 0.0,
        ),
        Claim(
            f"{contest.label}: partial search ÷ full search, money",
            "below 1",
            lambda found: f"{_search_usd(found[ours]) / _search_usd(found[full]):.2f}",
            lambda found: _search_usd(found[ours]) < _search_usd(found[full]),
        ),
        Claim(
            f"{contest.label}: {what} of an arbitrary configuration ÷ Scavenger's",
            rival,
            lambda found: f"{times(found):.2f} ×",
            lambda found: times(found) > 1.0,
        ),
    )


def _search_usd(row: Averages) -> float:
    return row.search_usd
