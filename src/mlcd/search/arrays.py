"""Columns over a space: the array types that the strategies share, and how to fill a column cheaply."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from mlcd.core.machines import Deployment, Offer

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
Rows = NDArray[np.intp]


def distinct_offers(deployments: Sequence[Deployment]) -> tuple[list[Offer], Rows]:
    """The offers, and which of them the workers of each deployment are. By identity: comparing them all takes too long."""
    numbers: dict[int, int] = {}
    offers: list[Offer] = []
    rows = np.empty(len(deployments), dtype=np.intp)
    for row, deployment in enumerate(deployments):
        number = numbers.setdefault(id(deployment.offer), len(offers))
        if number == len(offers):
            offers.append(deployment.offer)
        rows[row] = number
    return offers, rows


def with_other_servers(deployments: Sequence[Deployment]) -> tuple[Rows, list[Offer]]:
    """The deployments whose parameter servers are of another type than the workers, and that type of each."""
    found = [(row, each.server_offer) for row, each in enumerate(deployments) if each.server_offer is not None]
    return np.array([row for row, _ in found], dtype=np.intp), [server for _, server in found]


def losses_per_hour(deployments: Sequence[Deployment]) -> Floats:
    """Deployment.losses_per_hour of each."""
    offers, rows = distinct_offers(deployments)
    losses = np.array([offer.losses_per_hour for offer in offers], dtype=float)[rows]
    mixed, servers = with_other_servers(deployments)
    losses[mixed] += [server.losses_per_hour for server in servers]
    return losses


def per_value(column: Floats, function: Callable[[float], float]) -> Floats:
    """The function of each value, called once for each distinct one."""
    distinct, places = np.unique(column, return_inverse=True)
    return np.array([function(float(each)) for each in distinct], dtype=float)[places]
