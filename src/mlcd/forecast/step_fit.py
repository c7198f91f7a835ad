"""The parallel model fitted to profiled steps of one job on one family of instance types.

    x   parameters: log α, log(β·m̄/α), p, q, five of the sync trend, one per instance type, one per grid
    y   log of the profiled step times             Σ   covariance of x after the fit

Every parameter has a prior, so that six readings suffice, and one gives a wide interval instead of an error:
x minimises Σ((log τ(x) − y)/spread)² + Σ((x − prior)/prior spread)², which SciPy solves with bounds. An
instance type may compute a few per cent off its family (kin), and a cluster of n nodes may synchronise off
the trend (the network between racks is uneven): neighbours in n and g share most of that deviation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mlcd.errors import UserError
from mlcd.forecast.estimate import Estimate, spread_around
from mlcd.forecast.parallel import OVERLAP, SATURATION, Grid, Placement, StepLaw, SyncTrend

Array = NDArray[np.float64]

STEP_SPREAD = 0.035  # what a law so simple misses of a step's logarithm, with the noise of 20 steps
# Standard deviations before anything was seen.
LOAD_SPREAD, SATURATION_SPREAD, OVERLAP_SPREAD, KIN_SPREAD = 3.0, 0.1, 0.5, 0.07
SYNC_LEVEL_SPREAD, INTRA_SLOPE_SPREAD, SLOPE_SPREAD = 1.5, 0.3, 0.2
SMOOTH_SPREAD, CLUSTER_SPREAD, GRID_SPREAD = 0.2, 0.15, 0.06
_FREE = 50.0  # the scale is anything
_TREND = slice(4, 9)


@dataclass(frozen=True)
class Profile:
    """The mean step time that was seen on a placement."""

    placement: Placement
    step_seconds: float


@dataclass(frozen=True)
class StepModel:
    """Step times of all placements of one family, with intervals."""

    space: StepSpace
    x: Array
    covariance: Array

    def law(self) -> StepLaw:
        """The fitted parameters, as they are stored and lent to other jobs."""
        return self.space.law(self.x)

    def step(self, placement: Placement) -> Estimate:
        """Expected step time in seconds."""
        row = self.space.index(placement)
        return spread_around(float(np.exp(self._logs[row])), float(self._spreads[row]))

    @cached_property
    def _logs(self) -> Array:
        return self.space.log_steps(self.x)

    @cached_property
    def _spreads(self) -> Array:
        slopes = self.space.slopes(self.x)
        variances = np.einsum("ij,jk,ik->i", slopes, self.covariance, slopes)
        return np.asarray(np.sqrt(np.maximum(variances, 0.0) + STEP_SPREAD**2))


def fit_steps(placements: Sequence[Placement], profiles: Sequence[Profile]) -> StepModel:
    """The model of all these placements, from the profiles of some; all are of one family."""
    if not profiles:
        raise UserError("No step was profiled.", "Profile at least one deployment.")
    space = StepSpace(tuple(placements))
    rows = np.array([space.index(profile.placement) for profile in profiles])
    logs = np.log([profile.step_seconds for profile in profiles])
    prior = space.prior_mean(float(logs.min()))

    def misses(x: Array) -> Array:
        seen = (space.log_steps(x)[rows] - logs) / STEP_SPREAD
        return np.concatenate([seen, (x - prior) / space.prior_spread])

    from scipy.optimize import least_squares  # half a second: most commands fit nothing

    found = least_squares(misses, prior, bounds=space.bounds, x_scale="jac")
    return StepModel(space, found.x, np.linalg.pinv(found.jac.T @ found.jac))


class StepSpace:
    """All placements of one family as arrays, and the law over them as a function of the parameters."""

    def __init__(self, placements: tuple[Placement, ...]) -> None:
        if len({placement.family for placement in placements}) != 1:
            raise UserError("A step model is fitted to placements of one family of instance types.")
        self.placements = placements
        self.micro = np.array([placement.micro_batch for placement in placements])
        self.pieces = np.array([float(placement.micro_batches) for placement in placements])
        self.usual = float(np.exp(np.log(self.micro).mean()))  # m̄, where the load parameter is taken
        self.kinds = sorted({placement.instance for placement in placements})
        self.kind = np.array([self.kinds.index(placement.instance) for placement in placements])
        self.grids = sorted({placement.grid for placement in placements if placement.devices > 1})
        # One past the last grid stands for no synchronisation.
        last = len(self.grids)
        self.grid = np.array([self.grids.index(one.grid) if one.devices > 1 else last for one in placements], dtype=int)
        self._trend_rows = _trend_rows(self.grids)
        self._roots = np.linalg.cholesky(_grid_covariance(self.grids)) if self.grids else np.zeros((0, 0))
        self._rows = {placement: row for row, placement in enumerate(placements)}

    def index(self, placement: Placement) -> int:
        """The row of a placement."""
        row = self._rows.get(placement)
        if row is None:
            raise UserError(f"{placement} is not among the placements that were fitted.")
        return row

    def prior_mean(self, log_alpha: float) -> Array:
        """What is believed before anything was seen."""
        usual = SyncTrend()
        trend = [usual.intra, usual.intra_slope, usual.inter, usual.nodes_slope, usual.devices_slope]
        rest = np.zeros(len(self.kinds) + len(self.grids))
        return np.concatenate([[log_alpha, 0.0, SATURATION, OVERLAP], trend, rest])

    @cached_property
    def prior_spread(self) -> Array:
        """How firmly."""
        law = [_FREE, LOAD_SPREAD, SATURATION_SPREAD, OVERLAP_SPREAD]
        trend = [SYNC_LEVEL_SPREAD, INTRA_SLOPE_SPREAD, SYNC_LEVEL_SPREAD, SLOPE_SPREAD, SLOPE_SPREAD]
        kinds = np.full(len(self.kinds), KIN_SPREAD)
        return np.concatenate([law, trend, kinds, np.ones(len(self.grids))])

    @property
    def bounds(self) -> tuple[Array, Array]:
        """p and q lie between a plain sum and nearly the larger of the two."""
        low, high = np.full(len(self.prior_spread), -np.inf), np.full(len(self.prior_spread), np.inf)
        low[2:4], high[2:4] = 1.0, (3.0, 6.0)
        return low, high

    def log_steps(self, x: Array) -> Array:
        """log τ of every placement."""
        p, q = x[2], x[3]
        kin = x[9 : 9 + len(self.kinds)]
        compute = (1.0 + (np.exp(x[1]) * self.micro / self.usual) ** p) ** (1 / p) * np.exp(kin[self.kind])
        sync = np.append(np.exp(self._log_sync(x)), 0.0)[self.grid]
        last = (compute**q + sync**q) ** (1 / q)
        return np.asarray(x[0] + np.log((self.pieces - 1.0) * compute + last))

    def slopes(self, x: Array) -> Array:
        """How log τ of every placement moves with every parameter."""
        here, step = self.log_steps(x), 1e-5
        columns = []
        for number in range(len(x)):
            moved = x.copy()
            moved[number] += step
            columns.append((self.log_steps(moved) - here) / step)
        return np.stack(columns, axis=1)

    def law(self, x: Array) -> StepLaw:
        """The parameters by name."""
        alpha = float(np.exp(x[0]))
        ratios = self._log_sync(x)
        return StepLaw(
            alpha_seconds=alpha,
            beta_seconds=float(alpha * np.exp(x[1]) / self.usual),
            smallest_micro_batch=float(self.micro.min()),
            largest_micro_batch=float(self.micro.max()),
            saturation=float(x[2]),
            overlap=float(x[3]),
            trend=SyncTrend(*(float(value) for value in x[_TREND])),
            log_sync={grid: float(ratio) for grid, ratio in zip(self.grids, ratios, strict=True)},
        )

    def _log_sync(self, x: Array) -> Array:
        deviations = self._roots @ x[9 + len(self.kinds) :]
        return np.asarray(self._trend_rows @ x[_TREND] + deviations)


def _trend_rows(grids: Sequence[Grid]) -> Array:
    """What each parameter of the trend is multiplied with, grid by grid (see SyncTrend.log_ratio)."""
    rows = [
        [1.0, np.log2(devices / 2), 0.0, 0.0, 0.0]
        if nodes == 1
        else [0.0, 0.0, 1.0, np.log2(nodes / 2), np.log2(devices)]
        for nodes, devices in grids
    ]
    return np.array(rows).reshape(len(rows), 5)


def _grid_covariance(grids: Sequence[Grid]) -> Array:
    """How log S may leave the trend: smoothly, by the number of nodes, and each grid for itself."""
    nodes, devices = np.log2(np.array(grids, dtype=float)).T
    apart = (devices[:, None] - devices) ** 2 / 4.0
    smooth = SMOOTH_SPREAD**2 * np.exp(-0.5 * ((nodes[:, None] - nodes) ** 2 + apart))
    cluster = CLUSTER_SPREAD**2 * (nodes[:, None] == nodes) * np.exp(-0.5 * apart)
    alike = (nodes[:, None] > 0) == (nodes > 0)  # inside a node and between nodes are different wires
    return np.asarray((smooth + cluster) * alike + GRID_SPREAD**2 * np.eye(len(grids)))
