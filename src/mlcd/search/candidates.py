"""What may be tried next, and what trying it costs, for all deployments at once."""

from __future__ import annotations

import numpy as np

from mlcd.core.machines import Deployment
from mlcd.core.trial import Trial
from mlcd.search.arrays import Floats, Mask
from mlcd.search.limits import PROBE_SURCHARGE, ProbeLimit, expected_total, limits_of
from mlcd.search.table import StudyView, Table, goal_values


def affordable(view: StudyView, room: ProbeLimit) -> Mask:
    """ProbeLimit.admits for all deployments (m,)."""
    return np.asarray(
        (view.probe_seconds * PROBE_SURCHARGE <= room.seconds) & (view.probe_usd * PROBE_SURCHARGE <= room.usd)
    )


def left_after_probe(view: StudyView) -> tuple[Floats, Floats]:
    """Seconds and dollars that the limits would leave for the training after each probe (m,); inf: no limit."""
    (deadline, budget), spent = limits_of(view.study.goal), view.study.spent
    return deadline - spent.seconds - view.probe_seconds, budget - spent.usd - view.probe_usd


def goal_cost_of_probes(view: StudyView, incumbent: Trial) -> Floats:
    """How much worse each probe makes the whole job, in the goal's unit, if the incumbent is trained on after it.

    For a goal in time that is PL_T, for one in money PL_C (equations 7 and 8 of the MLCD paper).
    """
    total = expected_total(view.study, incumbent)
    after = goal_values(view.study.goal, total.seconds + view.probe_seconds, total.usd + view.probe_usd)
    return after - view.study.goal.value(total.seconds, total.usd)


def first_of_each_type(view: StudyView, candidates: Mask, most: int) -> Deployment | None:
    """The next type's smallest deployment that was not tried yet, cheapest type first; None: all were.

    A type counts as tried once any deployment of it was. Of more than `most` types so many are taken
    evenly over the range of prices. Where there are several batch sizes the middle one is taken.
    """
    table = view.table
    tried = set(table.kind[table.rows(tuple(view.study.tried))].tolist())
    for kind in types_over_prices(view.table, most):
        if kind in tried:
            continue
        mine = candidates & (table.kind == kind)
        if mine.any():
            return smallest(table, mine)
    return None


def end_of_batch_sizes(view: StudyView, candidates: Mask, best: Deployment) -> Deployment | None:
    """The largest, then the smallest batch size that is still unseen, on the best deployment's type; None: both seen.

    Nothing that was measured at one batch size predicts what another one does.
    """
    table = view.table
    mine = table.kind == table.kind[table.position[best]]
    mine &= table.nodes == table.nodes[mine].min()
    largest, least = table.batch[mine].max(), table.batch[mine].min()
    seen = table.batch[table.rows(tuple(view.study.tried))]
    for end, unseen in ((largest, np.all(seen < largest)), (least, np.all(seen > least))):
        there = candidates & mine & (table.batch == end)
        if unseen and there.any():
            return smallest(table, there)
    return None


def types_over_prices(table: Table, most: int, among: Mask | None = None) -> list[int]:
    """Types by the price of a node, cheapest first, at most so many, evenly spread; of these deployments alone."""
    price, rows = np.full(len(table.kinds), np.inf), slice(None) if among is None else among
    np.minimum.at(price, table.kind[rows], table.node_usd_per_hour[rows])
    order = np.argsort(price, kind="stable")[: np.isfinite(price).sum()]
    chosen = np.unique(np.linspace(0, len(order) - 1, min(most, len(order))).round().astype(int))
    return [int(kind) for kind in order[chosen]]


def smallest(table: Table, mine: Mask) -> Deployment:
    """Of these the one with the fewest nodes, the middle batch size and the lowest price."""
    return at_nodes(table, mine, float(table.nodes[mine].min()))


def at_nodes(table: Table, mine: Mask, nodes: float) -> Deployment:
    """Of these the one with so many nodes, the middle batch size and the lowest price."""
    there = mine & (table.nodes == nodes)
    batches = np.unique(table.batch[there])
    rows = np.flatnonzero(there & (table.batch == batches[len(batches) // 2]))
    return table.deployments[int(rows[np.argmin(table.usd_per_hour[rows])])]
