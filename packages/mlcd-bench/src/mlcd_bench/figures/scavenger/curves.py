"""The Scavenger paper's figures beside what the paper says.

Figures 1 to 5 and 12 are read off its synthetic testbed, figures 6 to 9 (noise.py) are real gradient descent,
figures 10 and 11 and the overhead are mlcd's models and search on the testbed. How well the models do on recorded jobs
is `mlcd bench models FOLDER`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

import numpy as np

from mlcd.core.machines import Deployment, InstanceType, Offer
from mlcd.forecast.curves import Price, knee, pareto_front, per_instance
from mlcd_bench.claims import Claim, fact
from mlcd_bench.figures.scavenger import testbed
from mlcd_bench.figures.scavenger.noise import fig6, fig7, fig8, fig9
from mlcd_bench.figures.scavenger.play import Goal, cheapest, fastest, model_errors, overhead, partial_search
from mlcd_bench.figures.scavenger.testbed import (
    NETS,
    RESNET_18,
    WORKERS,
    Net,
    compute_seconds,
    hours,
    sync_seconds,
    usd,
)
from mlcd_bench.models.evaluation import Mode
from mlcd_bench.presets.preset import Curve, Preset


def fig1() -> Preset:
    """Running time and cost of ResNet-18 over workers, for every batch size."""
    pairs = [(hours(RESNET_18, 8, b) / hours(RESNET_18, 20, b), b) for b in RESNET_18.batches]
    dearer = [usd(RESNET_18, 20, b) / usd(RESNET_18, 8, b) for b in RESNET_18.batches]
    claims = (
        fact("speed-up from 8 to 20 workers (2.5 times as many)", "diminishing", _range([s for s, _ in pairs], " ×"),
             all(1.0 < speed_up < 2.5 for speed_up, _ in pairs)),
        fact("cost of 20 workers ÷ 8 workers", "above 1", _range(dearer, " ×"), min(dearer) > 1.0),
    )  # fmt: skip
    curves = tuple(_throughputs(RESNET_18, batch) for batch in RESNET_18.batches)
    return Preset("scavenger-fig1", "Time and cost of ResNet-18 over workers and batch sizes", (), claims, curves)


def fig2() -> Preset:
    """More workers, and larger batches."""
    shares = [hours(net, 4, net.batches[-1]) / hours(net, 16, net.batches[-1]) for net in NETS]
    gains = [hours(RESNET_18, 16, small) / hours(RESNET_18, 16, 1024) for small in RESNET_18.batches[:-1]]
    claims = (
        fact("(a) speed-up from 4 to 16 workers", "3 ×", _range(shares, " ×"), all(1.0 < s < 4.0 for s in shares)),
        fact("(c) time of each smaller batch ÷ batch 1024", "above 1", _range(gains, " ×"), min(gains) > 1.0),
    )
    return Preset("scavenger-fig2", "Scaling out, and scaling the batch", (), claims)


def fig3() -> Preset:
    """Where a step's time goes when the same capacity is cut into more workers."""
    sync = [sync_seconds(net, 16) / sync_seconds(net, 4) for net in NETS]
    compute = [compute_seconds(net, 8, net.batches[-1]) / compute_seconds(net, 8, net.batches[0]) for net in NETS]
    claims = (
        fact("synchronisation of 16 workers ÷ 4 workers", "above 1", _range(sync, " ×"), min(sync) > 1.0),
        fact("computation at the largest ÷ smallest batch", "above 1", _range(compute, " ×"), min(compute) > 1.0),
    )
    return Preset("scavenger-fig3", "Computation and synchronisation", (), claims)


def fig4() -> Preset:
    """Training time over batch sizes on 16 workers."""
    falls = [hours(net, 16, net.batches[-1]) / hours(net, 16, net.batches[0]) for net in NETS]
    claim = fact("time at the largest ÷ smallest batch, 16 workers", "below 1", _range(falls, ""), max(falls) < 1.0)
    return Preset("scavenger-fig4", "Training time over batch sizes", (), (claim,))


def fig5() -> Preset:
    """Throughput over batch sizes on 16 workers."""
    gains = [(_gain(net, *net.batches[:2]), _gain(net, *net.batches[-2:])) for net in NETS]
    claims = (
        fact("throughput gained for each per cent of batch: first step", "rises", _range([a for a, _ in gains], " %"),
             all(first > 0 for first, _ in gains)),
        fact("the same: last step", "plateaus", _range([b for _, b in gains], " %"), all(b < a for a, b in gains)),
    )  # fmt: skip
    return Preset("scavenger-fig5", "Throughput over batch sizes", (), claims)


def fig10() -> Preset:
    """Time and cost, and how well full search foretells them."""
    faster = [all(_falls([hours(net, k, b) for k in WORKERS]) for b in net.batches) for net in NETS]
    claims = (
        fact("more workers are always faster", "yes", " ".join("yes" if each else "no" for each in faster), all(faster)),
        _error(Mode.FULL, "1–5 %", 0.05),
    )  # fmt: skip
    return Preset("scavenger-fig10", "Time and cost; full search", (), claims)


def fig11() -> Preset:
    """Errors of the three modes."""
    claims = (
        _error(Mode.FULL, "0.5–3.5 %", 0.035),
        _error(Mode.PARTIAL, "4 %, Transformer below 2 %", 0.04),
        _error(Mode.UNIVERSAL, "4–20 %", 0.20),
    )
    return Preset("scavenger-fig11", "Error of the foretold training time", (), claims)


def fig12() -> Preset:
    """Machines priced by memory: another choice."""
    moved = [(_knee(net, per_instance()), _knee(net, _by_memory)) for net in NETS]
    claim = fact(
        "knee of the time-cost curve, by machine → by memory",
        "shifts",
        "; ".join(f"{one} → {other}" for one, other in moved),
        any(one != other for one, other in moved),
    )
    return Preset("scavenger-fig12", "Memory-based pricing", (), (claim,))


def overhead_preset() -> Preset:
    """Partial search beside an oracle, and beside configurations taken blindly."""
    claims = (
        *(_overhead(net, fastest, "training time", "13 %", 0.13) for net in NETS),
        *(_overhead(net, cheapest, "cost", "9 %", 0.09) for net in NETS),
        Claim("time of the worst configuration ÷ with search", "more than 2 ×", lambda _: _range(_worst(hours), " ×"),
              lambda _: min(_worst(hours)) > 1.0 and max(_worst(hours)) > 2.0),
        Claim("cost saved beside the worst configuration", "more than 40 %", lambda _: _saved(),
              lambda _: max(1.0 - 1.0 / each for each in _worst(usd)) > 0.4),
    )  # fmt: skip
    return Preset("scavenger-overhead", "What partial search costs beside an oracle", (), claims)


SCAVENGER_FIGURES: dict[str, Callable[[], Preset]] = {
    "scavenger-fig1": fig1, "scavenger-fig2": fig2, "scavenger-fig3": fig3, "scavenger-fig4": fig4,
    "scavenger-fig5": fig5, "scavenger-fig6": fig6, "scavenger-fig7": fig7, "scavenger-fig8": fig8,
    "scavenger-fig9": fig9, "scavenger-fig10": fig10, "scavenger-fig11": fig11, "scavenger-fig12": fig12,
    "scavenger-overhead": overhead_preset,
}  # fmt: skip


@dataclass(frozen=True)
class _Point:
    """A configuration on the curve of time and cost."""

    workers: int
    batch: int
    seconds: float
    usd: float

    def __str__(self) -> str:
        return f"{self.workers} × {self.batch}"


def _knee(net: Net, price: Price) -> str:
    points = []
    for one in testbed.placements(net):
        machine = InstanceType(testbed.TYPE, vcpus=4, memory_gib=16.0)
        deployment = Deployment(Offer("made", machine, testbed.USD_PER_HOUR, max(WORKERS)), one.nodes, one.batch)
        seconds = 3600.0 * hours(net, one.nodes, one.batch)
        points.append(_Point(one.nodes, one.batch, seconds, price(deployment, seconds)))
    return str(knee(pareto_front(points)))


def _by_memory(deployment: Deployment, seconds: float) -> float:
    """Only memory costs, and all workers together have what the batch needs: an e2-standard-4's would do for 64 samples."""
    return (deployment.batch_size or 0) / 64.0 * testbed.USD_PER_HOUR * seconds / 3600.0


def _error(mode: Mode, paper: str, most: float) -> Claim:
    text = f"{mode.value}: mean error of the training time"
    return Claim(
        text,
        paper,
        lambda _: _range([100 * each for each in model_errors(mode).values()], " %"),
        lambda _: fmean(model_errors(mode).values()) <= most,
    )


def _overhead(net: Net, goal: Goal, what: str, paper: str, most: float) -> Claim:
    """The paper tells it of ResNet-18 alone."""
    text = f"{net.name}: {what} over the oracle's"
    if net is not RESNET_18:
        return Claim(text, "not told", lambda _: f"{overhead(net, goal):.1%}")
    return Claim(text, paper, lambda _: f"{overhead(net, goal):.1%}", lambda _: overhead(net, goal) <= most)


def _worst(measure: Callable[[Net, int, int], float]) -> list[float]:
    """The worst configuration beside what was found, for each network."""
    goal = fastest if measure is hours else cheapest
    return [
        max(measure(net, one.nodes, one.batch) for one in testbed.placements(net))
        / (found.hours if measure is hours else found.usd)
        for net in NETS
        for found in (partial_search(net, goal, 0),)
    ]


def _saved() -> str:
    return _range([100 * (1.0 - 1.0 / each) for each in _worst(usd)], " %")


def _throughputs(net: Net, batch: int) -> Curve:
    values = tuple(batch / testbed.step_seconds(net, workers, batch) for workers in WORKERS)
    return Curve(f"batch {batch}", WORKERS, values)


def _gain(net: Net, small: int, large: int) -> float:
    """Throughput for each per cent of batch, in per cent."""
    rates = [batch / testbed.step_seconds(net, 16, batch) for batch in (small, large)]
    return float(np.log(rates[1] / rates[0]) / np.log(large / small))


def _falls(values: list[float]) -> bool:
    return all(later < earlier for earlier, later in pairwise(values))


def _range(values: list[float], unit: str) -> str:
    return f"{min(values):.2f} to {max(values):.2f}{unit}"
