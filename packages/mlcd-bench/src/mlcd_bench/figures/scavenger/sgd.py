"""Real stochastic gradient descent, small enough for a figure: what the Scavenger paper says of gradient noise.

A softmax regression on made-up data, trained by K workers that average their gradients, at a learning rate that stays as
it is while the batch grows, as in the paper. Its noise is the paper's (equation 2), divided by K, smoothed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

SAMPLES, FEATURES, CLASSES = 4096, 24, 6
RATE = 0.2
TARGET = 0.805  # accuracy on the data
MOST_STEPS = 1500
SMOOTHING = 0.02  # of the moving averages


@dataclass(frozen=True)
class Descent:
    """One training: the noise after every step, and the steps that it took to the target."""

    noise: tuple[float, ...]
    steps: int  # to the target
    batch: int

    @property
    def epochs(self) -> float:
        """To the target."""
        return self.steps * self.batch / SAMPLES

    @property
    def settled(self) -> float:
        """Mean noise of the second half."""
        return float(np.mean(self.noise[len(self.noise) // 2 :]))


@cache
def descend(workers: int, batch: int, seed: int = 0, least_steps: int = 300) -> Descent:
    """Train to the target, and for so many steps at least."""
    rng, (features, labels) = np.random.default_rng([seed, workers, batch]), _data()
    weights, noise = np.zeros((FEATURES, CLASSES)), list[float]()
    each = whole = 0.0
    reached: int | None = None
    for step in range(1, MOST_STEPS + 1):
        rows = rng.integers(SAMPLES, size=(workers, batch // workers))
        gradients = _gradients(weights, features[rows], labels[rows])
        mean = gradients.mean(axis=0)
        share = max(SMOOTHING, 1.0 / step)
        each += share * (float((gradients**2).sum(axis=(1, 2)).mean()) - each)
        whole += share * (float((mean**2).sum()) - whole)
        noise.append(each / whole / workers)
        weights = weights - RATE * mean
        if reached is None and _accuracy(weights) >= TARGET:
            reached = step
        if reached is not None and step >= least_steps:
            break
    return Descent(tuple(noise), reached or MOST_STEPS, batch)


def _gradients(weights: Array, features: Array, labels: NDArray[np.int_]) -> Array:
    """Of every worker: (workers, features, classes)."""
    scores = features @ weights
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shares /= shares.sum(axis=-1, keepdims=True)
    apart = shares - np.eye(CLASSES)[labels]
    return np.asarray(np.einsum("kbf,kbc->kfc", features, apart) / features.shape[1])


def _accuracy(weights: Array) -> float:
    features, labels = _data()
    return float(((features @ weights).argmax(axis=1) == labels).mean())


@cache
def _data() -> tuple[Array, NDArray[np.int_]]:
    """Overlapping clouds of points, one for each class."""
    rng = np.random.default_rng(7)
    labels = rng.integers(CLASSES, size=SAMPLES)
    centres = rng.normal(0.0, 0.45, (CLASSES, FEATURES))
    return centres[labels] + rng.normal(0.0, 1.0, (SAMPLES, FEATURES)), labels
