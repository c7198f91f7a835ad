"""Figures 6 to 9 of the Scavenger paper, about gradient noise, on real gradient descent.

Nothing of them is put in: the problem of sgd.py is trained, and its noise and steps are looked at.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from statistics import fmean

import numpy as np

from mlcd_bench.claims import Claim
from mlcd_bench.figures.scavenger.sgd import descend
from mlcd_bench.presets.preset import Preset

_BATCHES = (16, 32, 64, 128, 256)
_SEEDS = (0, 1, 2)


def fig6() -> Preset:
    """Gradient noise over steps."""
    early = Claim(
        "noise after 10, after 100 steps, settled",
        "rises, then is dominated by the number of workers (1 as normalised)",
        lambda _: _percents(_settling()),
        lambda _: _settling()[0] < _settling()[1] < _settling()[2] and abs(_settling()[2] - 1.0) < 0.1,
    )
    return Preset("scavenger-fig6", "Gradient noise over the training (real descent)", (), (early,))


def fig7() -> Preset:
    """Noise and training time."""
    claims = (
        Claim("noise at each larger batch", "falls", lambda _: _percents(_noises(4)), lambda _: _falls(_noises(4))),
        Claim("steps to the target at each larger batch", "falls", lambda _: _wholes(_steps()),
              lambda _: _steps()[0] > _steps()[-1]),
    )  # fmt: skip
    return Preset("scavenger-fig7", "Gradient noise and training time (real descent)", (), claims)


def fig8() -> Preset:
    """Epochs over noise."""
    claim = Claim(
        "correlation of noise and epochs to the target, over batch sizes",
        "linear: 1",
        lambda _: f"{_correlation(_noises(4), _epochs()):.2f}",
        lambda _: _correlation(_noises(4), _epochs()) > 0.9,
    )
    return Preset("scavenger-fig8", "Epochs to the target over gradient noise (real descent)", (), (claim,))


def fig9() -> Preset:
    """Noise over batch sizes, for several numbers of workers."""
    roots = [batch**-0.5 for batch in _BATCHES]
    claims = (
        Claim("correlation of noise and 1/√B", "linear: 1", lambda _: f"{_correlation(roots, _noises(4)):.2f}",
              lambda _: _correlation(roots, _noises(4)) > 0.9),
        Claim("noise with 8 workers ÷ with 4 at the same batch", "not very sensitive",
              lambda _: _percents(_between_workers()), lambda _: all(abs(r - 1.0) < 0.1 for r in _between_workers())),
    )  # fmt: skip
    return Preset("scavenger-fig9", "Gradient noise over batch sizes and workers (real descent)", (), claims)


def _settling() -> tuple[float, float, float]:
    noise = descend(4, 64).noise
    return noise[9], noise[99], noise[-1]


def _noises(workers: int) -> list[float]:
    return [fmean(descend(workers, batch, seed).settled for seed in _SEEDS) for batch in _BATCHES]


def _epochs() -> list[float]:
    return [fmean(descend(4, batch, seed).epochs for seed in _SEEDS) for batch in _BATCHES]


def _steps() -> list[float]:
    return [fmean(descend(4, batch, seed).steps for seed in _SEEDS) for batch in _BATCHES]


def _between_workers() -> list[float]:
    return [many / few for many, few in zip(_noises(8), _noises(4), strict=True)]


def _correlation(one: Iterable[float], other: Iterable[float]) -> float:
    return float(np.corrcoef(list(one), list(other))[0, 1])


def _falls(values: list[float]) -> bool:
    return all(later < earlier for earlier, later in pairwise(values))


def _percents(values: Iterable[float]) -> str:
    return ", ".join(f"{value:.2f}" for value in values)


def _wholes(values: Iterable[float]) -> str:
    return ", ".join(f"{value:.0f}" for value in values)
