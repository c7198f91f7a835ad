"""Gradient noise: how far the gradients of small batches stray from the gradient of the whole batch.

meter      NoiseMeter smooths the norms of observed steps, and says when the noise is stable; the formulas are there
schedule   Schedule decides at which steps to measure, so that measuring costs less than 2 % of the training
exchange   Exchange brings the norms of all ranks to rank 0

`mlcd.worker.pytorch.noise` takes the norms of a PyTorch program and feeds them in. Other programs feed a NoiseMeter themselves.
"""

from __future__ import annotations

from mlcd.worker.noise.meter import (
    GRAD_NOISE,
    NOISE_GROUPS,
    NOISE_SCALE,
    NOISE_STABLE,
    Noise,
    NoiseMeter,
    adascale_gain,
)

__all__ = [
    "GRAD_NOISE",
    "NOISE_GROUPS",
    "NOISE_SCALE",
    "NOISE_STABLE",
    "Noise",
    "NoiseMeter",
    "adascale_gain",
]
