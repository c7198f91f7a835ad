"""How many samples a job needs at each batch size: the statistical model.

    B   global batch size, samples                  D   samples in one epoch
    e   epochs to the target,  e·D = samples        γ   gradient noise, equation (2)
    s*  samples in the limit of small batches       φ   noise scale in samples
    e*  epochs in the limit of no noise             θ   epochs per unit of noise

Scavenger (equations 4, 6, 7):   e = e* + θ·γ,  γ ∝ 1/√B   →   samples = a + c/√B, falling with B where θ > 0.
Where the learning rate grows with the batch, larger batches need more samples instead, McCandlish's law:
samples = s*·(1 + B/φ), or slower than that, samples = s*·(1 + √(B/φ)), where φ itself rises with B.
Which form a job follows is asked of its data, by leave-one-out error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from mlcd.errors import UserError
from mlcd.forecast.estimate import Estimate, spread_around

Array = NDArray[np.float64]

LEAST_SPREAD = 0.01  # of the logarithm: two trainings of one job never end at the very same sample
UNCHECKED_SPREAD = 0.05  # where the fit goes through every point, nothing says how far off it is elsewhere
ONE_BATCH_SPREAD = 0.5  # where one batch size was seen, its growth is anyone's guess


class Form(StrEnum):
    """How samples-to-target depend on the batch size."""

    NOISE_SCALE = "noise-scale"  # s*·(1 + B/φ)
    ROOT = "root"  # s*·(1 + √(B/φ))
    SCAVENGER = "scavenger"  # D·(e* + θ/√B)
    CONSTANT = "constant"  # s*


# The part that depends on the batch size. Order: which form is preferred when the data cannot tell.
_SHAPES: dict[Form, Callable[[Array], Array]] = {
    Form.NOISE_SCALE: lambda batches: batches,
    Form.ROOT: np.sqrt,
    Form.SCAVENGER: lambda batches: 1.0 / np.sqrt(batches),
}


@dataclass(frozen=True)
class Work:
    """What one training showed: so many samples at this batch size reached the target."""

    batch: int
    samples: float


@dataclass(frozen=True)
class SamplesModel:
    """Samples to the target at any batch size."""

    form: Form
    fixed: float  # samples: s*, or D·e*
    varying: float  # s*/φ, s*/√φ, or D·θ
    covariance: tuple[tuple[float, float], tuple[float, float]]
    spread: float  # of one training's logarithm around the model
    deviations: float  # Student's, for the 95 % interval
    seen: tuple[int, ...]  # batch sizes that were fitted

    @property
    def noise_scale(self) -> float:
        """φ in samples; infinite where larger batches need no more samples."""
        if self.varying <= 0 or self.form not in (Form.NOISE_SCALE, Form.ROOT):
            return float("inf")
        share = self.fixed / self.varying
        return share if self.form is Form.NOISE_SCALE else share**2

    def samples(self, batch: int) -> Estimate:
        """Expected samples at this batch size."""
        row = _design(self.form, np.array([float(batch)]))[0]
        value = max(float(row @ [self.fixed, self.varying]), 1.0)
        variance = float(row @ np.array(self.covariance) @ row) / value**2
        return spread_around(value, float(np.sqrt(variance + self.spread**2)), self.deviations)


def fit_samples(work: Sequence[Work]) -> SamplesModel:
    """The form that predicts the batch sizes of this job best, fitted to all of them."""
    if not work:
        raise UserError("No batch size is known with its samples to the target.", "Train once to the target.")
    batches = np.array([float(one.batch) for one in work])
    samples = np.array([one.samples for one in work])
    if len(set(batches)) == 1:
        return _one_batch(batches, samples)
    return _fit(_best_form(batches, samples), batches, samples)


def fit_form(form: Form, work: Sequence[Work]) -> SamplesModel:
    """One form fitted, whether or not another would do better."""
    return _fit(form, np.array([float(one.batch) for one in work]), np.array([one.samples for one in work]))


def leave_one_out_error(form: Form, work: Sequence[Work]) -> float:
    """Mean relative error of each batch size predicted from the others."""
    return _left_out_error(form, np.array([float(one.batch) for one in work]), np.array([one.samples for one in work]))


def _best_form(batches: Array, samples: Array) -> Form:
    if len(set(batches)) < 4:  # two parameters need three others to be judged by
        falls = samples[batches.argmax()] < samples[batches.argmin()]
        return Form.SCAVENGER if falls else Form.NOISE_SCALE
    return min(_SHAPES, key=lambda form: _left_out_error(form, batches, samples))


def _left_out_error(form: Form, batches: Array, samples: Array) -> float:
    errors = []
    for out in range(len(batches)):
        kept = np.arange(len(batches)) != out
        predicted = _design(form, batches[out : out + 1]) @ _solve(form, batches[kept], samples[kept])
        errors.append(abs(float(predicted[0]) / samples[out] - 1.0))
    return float(np.mean(errors))


def _fit(form: Form, batches: Array, samples: Array) -> SamplesModel:
    found = _solve(form, batches, samples)
    design = _design(form, batches)
    residuals = design @ found / samples - 1.0
    freedom = len(batches) - 2
    spread = max(float(np.sqrt(residuals @ residuals / freedom)), LEAST_SPREAD) if freedom else UNCHECKED_SPREAD
    relative = design / samples[:, None]
    covariance = np.linalg.pinv(relative.T @ relative) * spread**2
    deviations = float(stdtrit(freedom if freedom > 1 else 2, 0.975))
    (a, b), (c, d) = covariance.tolist()
    return SamplesModel(form, float(found[0]), float(found[1]), ((a, b), (c, d)), spread, deviations, _whole(batches))


def _solve(form: Form, batches: Array, samples: Array) -> Array:
    """Both parameters, none below zero, by least squares of the relative error (nearly the logarithm's)."""
    weighted = _design(form, batches) / samples[:, None]
    # Scaled columns: 1/√B and B differ by many powers of ten.
    scale = np.linalg.norm(weighted, axis=0)
    from scipy.optimize import nnls  # half a second: most commands fit nothing

    found, _ = nnls(weighted / scale, np.ones(len(samples)))
    return np.asarray(found / scale)


def _one_batch(batches: Array, samples: Array) -> SamplesModel:
    mean = float(samples.mean())
    nothing = ((0.0, 0.0), (0.0, 0.0))
    return SamplesModel(Form.CONSTANT, mean, 0.0, nothing, ONE_BATCH_SPREAD, 1.96, _whole(batches))


def _design(form: Form, batches: Array) -> Array:
    shape = _SHAPES.get(form, np.zeros_like)
    return np.stack([np.ones_like(batches), shape(batches)], axis=1)


def _whole(batches: Array) -> tuple[int, ...]:
    return tuple(sorted({int(batch) for batch in batches}))
