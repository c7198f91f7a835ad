"""What is believed before anything is measured: scaling laws, and how far deployments stray from them.

A step of training takes the compute, a fixed time, an exchange between the nodes, and what grows with their
number. In units of the compute time of one unit (the smallest node of a family) the log throughput of n nodes
with batch size b is, up to the level of the job,

    m(d) = log(r·g·n) − log(1 + g·n·r^ρ·(b₀/b)^β·(o + τ·(1 − 1/(n·g^λ)) + κ·(n − 1)))

    r           rate of the family's unit: its price ÷ the median unit's, for what costs twice as much is taken
                to be about twice as fast
    g           size of the node: its price ÷ the unit's; c4.2xlarge is four c4.large, a100x8 eight a100x1
    o, τ, κ     fixed time, exchange and growth, each ÷ the compute time of a unit
    ρ = 0       the overhead of a faster family is shorter in step; ρ = 1: it is the same for all
    β = 1       a larger batch dilutes the overhead; β = 0: it does not
    λ = 1       the units of a node exchange as nodes do; λ = 0: they need not

Nobody knows (o, τ, κ, ρ, β, λ): each law is one hypothesis, spread evenly over the logarithms of the ranges below.
What no law says is Gaussian: k(d, d′) is the covariance of the difference between log throughput and its law.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from mlcd.search.arrays import Floats, Ints, Mask, Rows
from mlcd.search.auto.features import Features, join


@dataclass(frozen=True)
class Prior:
    """Standard deviations of log throughput, and ranges of the laws: round guesses, not fitted to data."""

    level: float = 5.0  # of the whole job
    price: float = 0.25  # of the exponent of the price
    kind: float = 0.7  # with or without accelerators
    klass: float = 0.2  # c4 and c5 against m4 and m5
    family: float = 0.4
    type: float = 0.1
    scaling: float = 0.15  # of all types together, at e times as many nodes
    type_scaling: float = 0.15  # of each by itself
    network: float = 0.2  # of all types together, at the step from one node to several
    family_network: float = 0.6  # of each family by itself: networks differ more than anything else
    size: float = 0.15  # of all families together, at a node e times as large
    family_size: float = 0.15  # of each by itself
    servers: float = 0.3  # at e times as many parameter servers
    server_type: float = 0.2  # of parameter servers of another type than the workers
    batch: float = 0.25
    batch_length: float = 1.5  # in log batch size
    own: float = 0.08  # of one deployment, which no other predicts
    likeness: float = 0.8  # correlation with an earlier study
    # Rival factors on all of these but level, price and kind.
    roughnesses: tuple[float, ...] = (0.5, 1.0, 2.0)
    roughness_weights: tuple[float, ...] = (0.25, 0.5, 0.25)
    overhead: tuple[float, float] = (0.001, 10.0)  # o
    exchange: tuple[float, float] = (0.001, 5.0)  # τ
    growth: tuple[float, float] = (1e-5, 0.03)  # κ
    laws: int = 128


@dataclass(frozen=True)
class Reference:
    """Where the laws are anchored: what the prices hint at for each instance type (T), and b₀."""

    types: Ints  # ascending: (T,)
    log_rates: Floats  # log r: (T,)
    log_sizes: Floats  # log g: (T,)
    log_batch: float
    log_nodes: float  # the fewest nodes: the scaling of a type is measured from there

    def hints(self, deployments: Features) -> tuple[Floats, Floats]:
        """log r and log g of each deployment: (N,), (N,)."""
        places = np.searchsorted(self.types, deployments.type_id)
        return self.log_rates[places], self.log_sizes[places]


def reference_of(space: Features, known: Features) -> Reference:
    """The reference of a space and of whatever else was tried."""
    everything = join((space, known))
    types, first, places = np.unique(everything.type_id, return_index=True, return_inverse=True)
    prices = np.full(len(types), -np.inf)  # the most expensive offer of a type: on demand, not spot
    np.maximum.at(prices, places, everything.log_price)
    _, families = np.unique(everything.family_id[first], return_inverse=True)
    units = np.full(families.max(initial=0) + 1, np.inf)
    np.minimum.at(units, families, prices)
    return Reference(
        types=types,
        log_rates=(units - np.median(units))[families],
        log_sizes=prices - units[families],
        log_batch=float(np.median(space.log_batch)),
        log_nodes=float(everything.log_nodes.min()),
    )


def law_means(deployments: Features, reference: Reference, prior: Prior, laws: Rows | None = None) -> Floats:
    """m of these laws, or of all: (L, N)."""
    columns = (each if laws is None else each[laws] for each in _laws(prior))
    overhead, exchange, growth, rho, beta, inner = columns
    nodes, (log_r, log_g) = deployments.nodes, reference.hints(deployments)
    units = log_g + deployments.log_nodes
    dilution = reference.log_batch - deployments.log_batch
    load = np.exp(units + rho * log_r + beta * dilution)
    loss = overhead + exchange * (1.0 - np.exp(-deployments.log_nodes - inner * log_g)) + growth * (nodes - 1.0)
    means: Floats = log_r + units - np.log1p(load * loss)
    return means


@cache
def _laws(prior: Prior) -> tuple[Floats, ...]:
    """The laws as columns (L, 1): points of a Sobol sequence, the same in every process."""
    from scipy.stats import qmc  # most of a second: most commands search nothing

    unit = qmc.Sobol(6, scramble=False).random(2 * prior.laws)[prior.laws :, :, None]
    low, high = np.log([prior.overhead, prior.exchange, prior.growth]).T[:, :, None]
    scales = np.exp(low + (high - low) * unit[:, :3])
    return scales[:, 0], scales[:, 1], scales[:, 2], unit[:, 3], unit[:, 4], np.round(unit[:, 5])


def covariances(a: Features, b: Features, reference: Reference, prior: Prior) -> Floats:
    """k at every roughness: (G, A, B)."""
    same_study = _equal(a.study_id, b.study_id)
    (rate_a, size_a), (rate_b, size_b) = reference.hints(a), reference.hints(b)
    smooth = prior.price**2 * np.outer(rate_a, rate_b) + prior.kind**2 * _equal(a.kind_id, b.kind_id)
    rough = _rough_part(a, b, np.minimum.outer(size_a, size_b), reference, prior)
    if not same_study.all():
        alike = np.where(same_study, 1.0, prior.likeness)
        smooth, rough = alike * smooth, alike * rough
    smooth += prior.level**2 * same_study
    return np.array([smooth + roughness**2 * rough for roughness in prior.roughnesses])


def _rough_part(a: Features, b: Features, size: Floats, reference: Reference, prior: Prior) -> Floats:
    same_type = _equal(a.type_id, b.type_id)
    apart = a.log_batch[:, None] - b.log_batch[None, :]
    nodes = np.minimum.outer(a.log_nodes - reference.log_nodes, b.log_nodes - reference.log_nodes)
    same = same_type & (apart == 0) & _equal(a.log_nodes, b.log_nodes) & _equal(a.servers, b.servers)
    same_servers = _equal(a.server_id, b.server_id)
    same &= same_servers
    k = prior.scaling**2 * nodes + prior.size**2 * size  # Brownian in log nodes and in log size
    k += same_type * (prior.type**2 + prior.type_scaling**2 * nodes)
    k += prior.servers**2 * np.log1p(np.minimum.outer(a.servers, b.servers))
    k += prior.server_type**2 * (same_servers & (a.server_id != 0)[:, None])
    several = np.logical_and.outer(a.nodes > 1, b.nodes > 1)
    k += prior.network**2 * several
    k += _equal(a.family_id, b.family_id) * (
        prior.family**2 + prior.family_size**2 * size + prior.family_network**2 * several
    )
    k += prior.klass**2 * _equal(a.class_id, b.class_id)
    k += prior.batch**2 * np.exp(-0.5 * (apart / prior.batch_length) ** 2) if apart.any() else prior.batch**2
    k += prior.own**2 * same
    return k


def variances(a: Features, reference: Reference, prior: Prior) -> Floats:
    """The diagonal of k at every roughness: (G, A)."""
    (rate, size), steps = reference.hints(a), a.log_nodes - reference.log_nodes
    smooth = prior.level**2 + prior.kind**2 + (prior.price * rate) ** 2
    types = prior.klass**2 + prior.family**2 + prior.type**2 + size * (prior.size**2 + prior.family_size**2)
    network = (a.nodes > 1) * (prior.network**2 + prior.family_network**2)
    scaling = steps * (prior.scaling**2 + prior.type_scaling**2)
    scaling += prior.servers**2 * np.log1p(a.servers) + prior.server_type**2 * (a.server_id != 0)
    rough = types + network + scaling + prior.batch**2 + prior.own**2
    return np.array([smooth + roughness**2 * rough for roughness in prior.roughnesses])


def _equal(a: Rows | Floats, b: Rows | Floats) -> Mask:
    same: Mask = np.equal.outer(a, b)
    return same
