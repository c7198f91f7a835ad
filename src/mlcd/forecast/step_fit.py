"""The parallel model fitted to profiled steps of one job on one family of instance types.

    x   parameters: log α, log(β·m̄/α), p, q, five of the sync trend, one per instance type, one per grid
    y   log of the profiled step times             Σ   covariance of x after the fit

Every parameter has a prior, so that six readings suffice, and one gives a wide interval instead of an error:
x minimises Σ((log τ(x) − y)/spread)² + Σ((x − prior)/prior spread)², which SciPy solves with bounds. An
instance type may compute a few per cent off its family (kin), and a cluster of n nodes may synchronise off
the trend (the network between racks is uneven): neighbours in n and g share most of that deviation.

No job follows the law exactly. What it misses at a profile it misses at placements like it, too (micro-batch, pieces,
nodes and devices alike): universal kriging. Where profiles are missed by more than that, all intervals grow.
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
Rows = NDArray[np.int_]

# What a law so simple misses of a step's logarithm: the same where placements are alike, and each for itself,
# with the noise of 20 steps.
SHARED_SPREAD, STEP_SPREAD = 0.05, 0.015
# Standard deviations before anything was seen.
LOAD_SPREAD, SATURATION_SPREAD, OVERLAP_SPREAD, KIN_SPREAD = 3.0, 0.1, 0.5, 0.07
SYNC_LEVEL_SPREAD, INTRA_SLOPE_SPREAD, SLOPE_SPREAD = 1.5, 0.3, 0.2
SMOOTH_SPREAD, CLUSTER_SPREAD, GRID_SPREAD = 0.2, 0.15, 0.06
_FREE = 50.0  # the scale is anything
DOUBT = 6.0  # how many misses of the expected size stand for what is believed of their size
_TREND = slice(4, 9)
_ALL = slice(None)


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
    logs: Array  # of the expected step time of every placement
    spreads: Array

    def law(self) -> StepLaw:
        """The fitted parameters, as they are stored and lent to other jobs."""
        return self.space.law(self.x)

    def step(self, placement: Placement) -> Estimate:
        """Expected step time in seconds."""
        row = self.space.index(placement)
        return spread_around(float(np.exp(self.logs[row])), float(self.spreads[row]))


def fit_steps(placements: Sequence[Placement], profiles: Sequence[Profile]) -> StepModel:
    """The model of all these placements, from the profiles of some; all are of one family."""
    if not profiles:
        raise UserError("No step was profiled.", "Profile at least one deployment.")
    space = StepSpace(tuple(placements))
    rows = np.array([space.index(profile.placement) for profile in profiles])
    logs = np.log([profile.step_seconds for profile in profiles])
    unmix = np.linalg.inv(space.missed(rows)[rows] + STEP_SPREAD**2 * np.eye(len(rows)))
    x, covariance, cost = _likeliest(space, rows, logs, unmix)
    scale = max(1.0, (DOUBT + cost) / (DOUBT + len(rows)))  # luck makes no profile more sure
    return _lend(space, rows, logs, unmix, x, covariance * scale, scale)


def _likeliest(space: StepSpace, rows: Rows, logs: Array, unmix: Array) -> tuple[Array, Array, float]:
    """The parameters, their covariance, and how far off the profiles are in squared standard deviations."""
    prior, whiten = space.prior_mean(float(logs.min())), np.linalg.cholesky(unmix).T

    def misses(x: Array) -> Array:
        return np.concatenate([whiten @ (space.log_steps(x, rows) - logs), (x - prior) / space.prior_spread])

    def slopes(x: Array) -> Array:
        return np.concatenate([whiten @ space.slopes(x, rows), np.diag(1.0 / space.prior_spread)])

    from scipy.optimize import least_squares  # half a second: most commands fit nothing

    found = least_squares(misses, prior, slopes, bounds=space.bounds, x_scale="jac")
    return found.x, np.linalg.inv(found.jac.T @ found.jac), 2.0 * float(found.cost)


def _lend(
    space: StepSpace, rows: Rows, logs: Array, unmix: Array, x: Array, covariance: Array, scale: float
) -> StepModel:
    """The law, and at each placement what it missed at profiles like it (universal kriging)."""
    missed = space.missed(rows)
    lent, law, slopes = missed @ unmix, space.log_steps(x), space.slopes(x)
    moved = slopes - lent @ slopes[rows]
    left = np.maximum(SHARED_SPREAD**2 - np.einsum("ij,ij->i", lent, missed), 0.0) + STEP_SPREAD**2
    variances = scale * left + np.einsum("ij,ij->i", moved @ covariance, moved)
    return StepModel(space, x, law + lent @ (logs - law[rows]), np.sqrt(variances))


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

    def log_steps(self, x: Array, rows: Rows | slice = _ALL) -> Array:
        """log τ of every placement, or of some; a row for each x, where x are the rows of an array."""
        p, q = x[..., 2, None], x[..., 3, None]
        kin = x[..., 9 : 9 + len(self.kinds)]
        load = (np.exp(x[..., 1, None]) * self.micro[rows] / self.usual) ** p
        compute = (1.0 + load) ** (1 / p) * np.exp(kin[..., self.kind[rows]])
        sync = np.exp(self._log_sync(x))
        sync = np.concatenate([sync, np.zeros((*x.shape[:-1], 1))], axis=-1)[..., self.grid[rows]]
        last = (compute**q + sync**q) ** (1 / q)
        return np.asarray(x[..., 0, None] + np.log((self.pieces[rows] - 1.0) * compute + last))

    def missed(self, rows: Rows) -> Array:
        """How the law's misses at all placements go with those at some: the closer, the more alike."""
        nodes, devices = np.log2([placement.grid for placement in self.placements]).T
        places = (np.log(self.micro), np.log(self.pieces) / 2.0, nodes, devices)
        apart = np.sqrt(sum((place[:, None] - place[rows]) ** 2 for place in places))
        return np.asarray(SHARED_SPREAD**2 * np.exp(-apart))

    def slopes(self, x: Array, rows: Rows | slice = _ALL) -> Array:
        """How log τ of every placement, or of some, moves with every parameter."""
        step = 1e-6
        return (self.log_steps(x + step * np.eye(len(x)), rows) - self.log_steps(x, rows)).T / step

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
        deviations = x[..., 9 + len(self.kinds) :] @ self._roots.T
        return np.asarray(x[..., _TREND] @ self._trend_rows.T + deviations)


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
