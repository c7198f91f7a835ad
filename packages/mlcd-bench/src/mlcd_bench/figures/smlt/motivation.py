"""Figures 1 to 3 of the SMLT paper: why functions need another way to synchronise, and a search. Read off the testbed."""

from __future__ import annotations

from dataclasses import replace

from mlcd_bench.claims import Claim, fact
from mlcd_bench.figures.smlt.testbed import (
    BERT_MEDIUM,
    BERT_SMALL,
    COUNTS,
    RESNET_18,
    RESNET_50,
    Net,
    compute_seconds,
    exchange_seconds,
    functions_case,
)
from mlcd_bench.presets.preset import Curve, Preset

_LARGEST_MB = 10240
_SIZES = ("fn-3072mb", "fn-6144mb", "fn-10240mb")  # 3, 6 and 10 GB in the paper
_FEWEST = 10  # to 200 functions


def fig1() -> Preset:
    """Siren: through the object store."""
    return _scaling("smlt-fig1", "Siren", "objects")


def fig2() -> Preset:
    """Cirrus: through one central server."""
    return _scaling("smlt-fig2", "Cirrus", "central")


def _scaling(name: str, system: str, exchange: str) -> Preset:
    """More functions compute less and communicate more, until that costs more than it saves."""
    nets = tuple(replace(net, exchange=exchange) for net in (BERT_SMALL, BERT_MEDIUM))
    claims = tuple(claim for net in nets for claim in _scaling_claims(net))
    curves = tuple(_curve(net) for net in nets)
    return Preset(name, f"Scalability of BERT with {system}'s way, per iteration", (), claims, curves)


def _scaling_claims(net: Net) -> tuple[Claim, ...]:
    steps = {count: _compute(net, count) + exchange_seconds(net, count) for count in COUNTS}
    best, few, many = min(steps, key=steps.__getitem__), 8, COUNTS[-1]
    computing = _compute(net, many) / _compute(net, few)
    exchanging = exchange_seconds(net, many) / exchange_seconds(net, few)
    slower = steps[many] / steps[best]
    return (
        fact(f"{net.name}: computation on {many} ÷ on {few}", "falls", f"{computing:.2f} ×", computing < 1.0),
        fact(f"{net.name}: communication on {many} ÷ on {few}", "grows", f"{exchanging:.1f} ×", exchanging > 1.0),
        fact(f"{net.name}: fastest number of functions", "20 to 40", f"{best}", 1 < best < many),
        fact(f"{net.name}: an iteration on {many} ÷ on {best}", "above 1", f"{slower:.1f} ×", slower > 1.0),
    )


def _compute(net: Net, count: int) -> float:
    return compute_seconds(net, _LARGEST_MB, count)


def _curve(net: Net) -> Curve:
    seconds = tuple(_compute(net, count) + exchange_seconds(net, count) for count in COUNTS)
    return Curve(net.name, COUNTS, tuple(net.batch / each for each in seconds))


def fig3() -> Preset:
    """Time and cost of an iteration differ much over 10 to 200 functions of 3, 6 and 10 GB."""
    claims = tuple(claim for net in (BERT_MEDIUM, BERT_SMALL, RESNET_18, RESNET_50) for claim in _spread(net))
    return Preset("smlt-fig3", "Time and cost of an iteration over 10 to 200 functions of 3, 6 and 10 GB", (), claims)


def _spread(net: Net) -> tuple[Claim, ...]:
    shown = {
        each: speed
        for each, speed in functions_case(net).speeds.items()
        if each.nodes >= _FEWEST and each.offer.instance.name in _SIZES
    }
    seconds = [net.batch / speed for speed in shown.values()]
    usd = [each.usd(net.batch / speed) for each, speed in shown.items()]
    return tuple(
        fact(f"{net.name}: highest {what} of an iteration ÷ lowest", "a high variance", f"{ratio:.1f} ×", ratio > 2.0)
        for what, ratio in (("time", max(seconds) / min(seconds)), ("cost", max(usd) / min(usd)))
    )
