"""A space as columns, one row for each deployment, so that thousands are judged at once.

m   deployments of the space          d   features of a deployment
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from mlcd.core.goal import Aim, Goal
from mlcd.core.machines import Deployment, Offer
from mlcd.core.study import Study
from mlcd.search.arrays import Floats, Mask, Rows, distinct_offers, per_value
from mlcd.search.prices import Prices, prices_of
from mlcd.search.trials import Exclusions, device_memory_gib, exclusions, local_batch


@dataclass(frozen=True, eq=False)
class Table:
    """What is known of every deployment before anything is tried; the same for every study of a space."""

    deployments: tuple[Deployment, ...]
    position: dict[Deployment, int]
    nodes: Floats  # (m,)
    servers: Floats  # (m,) of the nodes; 0: they exchange with each other
    prices: Prices
    batch: Floats  # (m,) global; 0: the program's own
    kind: Rows  # (m,) which instance type
    kinds: tuple[str, ...]  # names of the instance types
    local_batch: Floats  # (m,) of one device
    device_memory_gib: Floats  # (m,) 0: not known
    has_gpu: Mask  # (m,)
    losses_per_hour: Floats  # (m,)
    lifetime_seconds: Floats  # (m,) 0: no limit
    features: Floats  # (m, d) centred, of unit spread; see _features

    @property
    def usd_per_hour(self) -> Floats:
        """Price of all nodes (m,)."""
        return self.prices.usd_per_hour

    @property
    def node_usd_per_hour(self) -> Floats:
        """Price of one node (m,)."""
        return self.usd_per_hour / self.nodes

    @property
    def workers(self) -> Floats:
        """The nodes that train (m,)."""
        return self.nodes - self.servers

    def rows(self, deployments: tuple[Deployment, ...]) -> Rows:
        """Where these deployments stand; those outside the space are left out."""
        found = (self.position.get(deployment) for deployment in deployments)
        return np.array([row for row in found if row is not None], dtype=np.intp)


def table_of(space: tuple[Deployment, ...]) -> Table:
    """The space as columns, made once and remembered while it is searched."""
    return _table(space, tuple(deployment.memory_gib for deployment in space))


@lru_cache(maxsize=32)
def _table(space: tuple[Deployment, ...], memory_gib: tuple[float, ...]) -> Table:
    """Spaces that differ only in the memory bought are the same space, at other prices."""
    nodes = np.array([deployment.nodes for deployment in space], dtype=float)
    servers = np.array([deployment.servers for deployment in space], dtype=float)
    batch = np.array([deployment.batch_size or 0 for deployment in space], dtype=float)
    offers, which = distinct_offers(space)
    kinds = tuple(dict.fromkeys(offer.instance.name for offer in offers))
    numbers = {name: number for number, name in enumerate(kinds)}
    return Table(
        deployments=space,
        position={deployment: row for row, deployment in enumerate(space)},
        nodes=nodes,
        servers=servers,
        prices=prices_of(space),
        batch=batch,
        kind=np.array([numbers[offer.instance.name] for offer in offers], dtype=np.intp)[which],
        kinds=kinds,
        local_batch=np.array([local_batch(deployment) for deployment in space], dtype=float),
        device_memory_gib=np.array([device_memory_gib(o.instance) for o in offers], dtype=float)[which],
        has_gpu=np.array([offer.instance.gpus > 0 for offer in offers], dtype=bool)[which],
        losses_per_hour=np.array([offer.losses_per_hour for offer in offers], dtype=float)[which],
        lifetime_seconds=np.array([offer.lifetime_seconds for offer in offers], dtype=float)[which],
        features=_features(nodes, servers, batch, offers, which),
    )


def _features(nodes: Floats, servers: Floats, batch: Floats, offers: list[Offer], which: Rows) -> Floats:
    """Logarithms of nodes, servers, batch, price and hardware (m, d), each centred and of unit spread.

    Logarithms, because prices and sizes differ a thousand times. A fact that is not known (zero) takes the
    mean of those known; a column that does not vary says nothing and is left out.
    """
    facts = np.array(
        [
            (
                o.usd_per_hour,
                o.instance.vcpus,
                o.instance.memory_gib,
                o.instance.gpus * o.instance.gpu_memory_gib,
            )
            for o in offers
        ],
        dtype=float,
    )
    gpus = np.array([1.0 + offer.instance.gpus for offer in offers])
    columns = [nodes, servers, batch, *facts[which].T, gpus[which]]
    scaled = [_scaled(column) for column in columns]
    kept = [column for column in scaled if column is not None]
    return np.column_stack(kept) if kept else np.zeros((len(nodes), 1))


def _scaled(column: Floats) -> Floats | None:
    known = column > 0
    if not known.any():
        return None
    logs = np.log(np.where(known, column, 1.0))
    logs = np.where(known, logs - logs[known].mean(), 0.0)
    spread = float(logs.std())
    return logs / spread if spread > 1e-9 else None


@dataclass(frozen=True, eq=False)
class StudyView:
    """What trying or using each deployment would take in one study; all columns (m,)."""

    study: Study
    table: Table
    work: Floats  # samples to train, those included that are trained again after a loss
    probe_seconds: Floats
    probe_usd: Floats
    open: Mask  # neither tried nor under way, and no failure forbids it

    @property
    def runs(self) -> int:
        """Probes made or under way."""
        return len(self.study.trials) + len(self.study.pending)

    def training_seconds(self, speed: Floats) -> Floats:
        """Time of the whole training at these speeds."""
        return self.study.start_seconds + self.work / speed

    def usd(self, seconds: Floats) -> Floats:
        """Price of renting all nodes for that long."""
        return self.table.prices.rental_usd(seconds)


def study_view(study: Study) -> StudyView:
    """The study's space with what each deployment would take."""
    table = table_of(study.space)
    probe_seconds = per_value(table.nodes, lambda nodes: study.probe_time.seconds(int(nodes)))
    work = per_value(table.batch, lambda batch: study.samples_at.get(int(batch), study.samples))
    longer = per_value(table.losses_per_hour, study.slowdown) * per_value(
        table.lifetime_seconds, lambda seconds: study.slowdown(0.0, seconds)
    )
    is_open = ~excluded(table, exclusions(study))
    is_open[table.rows(tuple(study.tried))] = False
    return StudyView(
        study=study,
        table=table,
        work=work * longer,
        probe_seconds=probe_seconds,
        probe_usd=table.prices.rental_usd(probe_seconds),
        open=is_open,
    )


def excluded(table: Table, rules: Exclusions) -> Mask:
    """Which deployments would fail as others did (m,): the same rule as Exclusions.excludes, for all at once."""
    failing_types = [number for number, name in enumerate(table.kinds) if name in rules.failing_types]
    mask = np.isin(table.kind, failing_types)
    if rules.needs_gpu:
        mask |= ~table.has_gpu
    if rules.nodes_unshared:
        mask |= np.array([rules.excludes_sharing(deployment) for deployment in table.deployments], dtype=bool)
    for full in rules.out_of_memory:
        instance = full.offer.instance
        memory = device_memory_gib(instance)
        smaller = (table.device_memory_gib > 0.0) & (table.device_memory_gib <= memory)
        same = np.array([name == instance.name for name in table.kinds], dtype=bool)[table.kind]
        as_full = table.local_batch >= local_batch(full)
        mask |= as_full & (same | (smaller & (table.has_gpu == bool(instance.gpus))))
    return mask


def goal_values(goal: Goal, seconds: Floats, usd: Floats) -> Floats:
    """Goal.value for columns."""
    if goal.aim is Aim.FASTEST:
        return seconds / 3600.0
    if goal.aim is Aim.CHEAPEST:
        return usd
    return np.sqrt(seconds / 3600.0 * usd)
