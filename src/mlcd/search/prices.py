"""What deployments cost, as columns: Deployment.usd_per_hour and rental_usd for thousands at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mlcd.core.machines import Deployment
from mlcd.search.arrays import Floats, Rows, distinct_offers


@dataclass(frozen=True, eq=False)
class Prices:
    """Of m deployments; an item that is charged otherwise than by the hour stands here and in Deployment.rental_usd."""

    usd_per_hour: Floats  # (m,) of all nodes, with all that comes with them
    least_seconds: Floats  # (m,) that are charged, however short the rental

    def take(self, rows: Rows) -> Prices:
        """Of these deployments alone."""
        return Prices(self.usd_per_hour[rows], self.least_seconds[rows])

    def rental_usd(self, seconds: Floats) -> Floats:
        """Price of renting all nodes for that long: (…, m)."""
        return self.usd_per_hour * np.maximum(seconds, self.least_seconds) / 3600.0

    def affordable_seconds(self, usd: float | Floats) -> Floats:
        """How long all nodes can be rented for that much; 0: not at all: (m,)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            seconds = usd * 3600.0 / self.usd_per_hour
        enough = np.where(seconds >= self.least_seconds, seconds, 0.0)
        return np.where(self.usd_per_hour > 0, enough, np.inf)


def prices_of(deployments: Sequence[Deployment]) -> Prices:
    """The prices of these deployments; an offer is read once however often it is used."""
    offers, rows = distinct_offers(deployments)
    nodes = np.array([each.nodes for each in deployments], dtype=float)
    whole = np.array([each.whole_usd_per_hour for each in offers], dtype=float)[rows]
    shared = np.array([each.store_usd_per_hour for each in offers], dtype=float)[rows]
    spared = np.array([each.spared_usd_per_hour if each.memory_gib else 0.0 for each in deployments], dtype=float)
    return Prices(
        usd_per_hour=(whole - spared) * nodes + np.where(nodes > 1, shared, 0.0),
        least_seconds=np.array([each.least_seconds for each in offers], dtype=float)[rows],
    )
