"""Gradient noise: how far the gradients of small batches stray from the gradient of all of them together.

    K         groups whose gradients are averaged: workers, micro-batches, or parts of one batch
    b, B      samples of one group, and of all K
    g_k, ḡ    gradient of group k, and their mean
    γ         E[1/K Σ‖g_k‖²] / E[‖ḡ‖²]                        Scavenger, equation (2); between 1 and K
    γ/K       normalised, so that different K compare: between 1/K and 1
    |G|²      (B·‖ḡ‖² - b·mean‖g_k‖²) / (B - b)              squared norm of the true gradient, without bias
    tr(Σ)     (mean‖g_k‖² - ‖ḡ‖²) / (1/b - 1/B)              variance of one sample's gradient, without bias
    φ         tr(Σ) / |G|², in samples                        the simple noise scale of McCandlish et al. (2018)

All expectations are exponential averages over the observed steps, each taken before any ratio is. γ/K follows from φ for
any K and B: (1/K + φ/B) / (1 + φ/B).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlcd.worker.guard import guard
from mlcd.worker.session import current

GRAD_NOISE = "mlcd/grad_noise"  # γ/K
NOISE_GROUPS = "mlcd/noise_groups"  # K
NOISE_SCALE = "mlcd/noise_scale"  # φ, samples; absent while signal and noise cannot be distinguished
NOISE_STABLE = "mlcd/noise_stable"  # 1: may be used

_WEIGHT = 0.05  # of a new observation: the memory is of about twenty
_WINDOW = 24  # observations in which no drift must be seen
_STEADY_DRIFT = 0.1  # of γ, between the two halves of the window
_LOST_DRIFT = 0.3  # so much of it, and a noise that had settled is on the move again


@dataclass(frozen=True)
class Noise:
    """The gradient noise as it is known at a moment."""

    gamma: float  # γ
    groups: float  # K
    noise_scale: float | None  # φ in samples; None: the gradient cannot be distinguished from its noise
    observations: int
    stable: bool

    @property
    def normalised(self) -> float:
        """γ/K."""
        return self.gamma / self.groups

    def as_metrics(self) -> dict[str, float]:
        """As it is reported."""
        metrics = {GRAD_NOISE: self.normalised, NOISE_GROUPS: self.groups, NOISE_STABLE: float(self.stable)}
        return metrics if self.noise_scale is None else {**metrics, NOISE_SCALE: self.noise_scale}


def report_noise(noise: Noise) -> None:
    """Report it as metrics of this process."""
    session = current()
    if session.env.started_by_mlcd and not session.mute:
        session.report(None, None, noise.as_metrics())


class NoiseMeter:
    """Smooths what is observed and says when it has settled.

    A program that knows its gradients' norms, such as a parameter server, feeds it itself:

        meter = NoiseMeter()
        meter.observe([‖g_1‖², …, ‖g_K‖²], ‖ḡ‖², local_batch=32, global_batch=K * 32)
    """

    def __init__(self, report: Callable[[Noise], None] = report_noise) -> None:
        self._report = report
        self._means = _Means()
        self._groups = 0.0
        self._recent: deque[tuple[float, float]] = deque(maxlen=_WINDOW)
        self._stable = False

    @guard(None)
    def observe(
        self, local_sq_norms: Sequence[float], global_sq_norm: float, local_batch: float, global_batch: float
    ) -> None:
        """Take in the squared norms of one step: those of the groups' gradients and that of their mean.

        Some groups will do: each is an example of all. What is not finite (an overflow that a gradient scaler
        skips) or says nothing is left out.
        """
        local = sum(local_sq_norms) / len(local_sq_norms) if local_sq_norms else math.nan
        if not (math.isfinite(local + global_sq_norm) and local > 0 and 0 < local_batch < global_batch):
            return
        self._means.add(_parts(local, global_sq_norm, local_batch, global_batch))
        self._groups = global_batch / local_batch
        self._recent.append((local, global_sq_norm))
        self._stable = self._settled()
        noise = self.noise
        if noise is not None:
            self._report(noise)

    @property
    def noise(self) -> Noise | None:
        """What is known so far; None: nothing."""
        if not self._means.count or self._means.values[1] <= 0:
            return None
        local, mean, signal, variance = self._means.values
        scale = max(0.0, variance) / signal if signal > 0 else None
        return Noise(local / mean, self._groups, scale, self._means.count, self._stable)

    def _settled(self) -> bool:
        """Whether γ is the same in both halves of the window, whatever the gradient itself does meanwhile."""
        if len(self._recent) < _WINDOW:
            return False
        recent = list(self._recent)
        older, newer = _ratio(recent[: _WINDOW // 2]), _ratio(recent[_WINDOW // 2 :])
        return abs(newer - older) < (_LOST_DRIFT if self._stable else _STEADY_DRIFT) * older


class _Means:
    """Exponential means of ‖g_k‖², ‖ḡ‖², |G|² and tr(Σ); the first observations weigh alike."""

    def __init__(self) -> None:
        self.count = 0
        self.values = [0.0, 0.0, 0.0, 0.0]

    def add(self, values: Sequence[float]) -> None:
        """One more observation."""
        self.count += 1
        weight = max(_WEIGHT, 1 / self.count)
        self.values = [mean + weight * (values[i] - mean) for i, mean in enumerate(self.values)]


def _parts(local: float, mean: float, b: float, big_b: float) -> tuple[float, float, float, float]:
    signal = (big_b * mean - b * local) / (big_b - b)
    variance = (local - mean) / (1 / b - 1 / big_b)
    return local, mean, signal, variance


def _ratio(norms: list[tuple[float, float]]) -> float:
    total = sum(mean for _, mean in norms)
    return sum(local for local, _ in norms) / total if total > 0 else math.inf


def adascale_gain(noise_scale: float, base_batch: float, batch: float) -> float:
    """How many steps of the base batch a step of this batch is worth: r = (σ²+μ²)/(σ²/S+μ²) of AdaScale.

    With σ² = tr(Σ)/base_batch, μ² = |G|² and S = batch/base_batch this is (φ/base_batch + 1)/(φ/batch + 1).
    """
    return (noise_scale / base_batch + 1) / (noise_scale / batch + 1)
