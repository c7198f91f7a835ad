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
    """The offers, and which of them each deployment uses. By identity: comparing them all takes too long."""
    numbers: dict[int, int] = {}
    offers: list[Offer] = []
    rows = np.empty(len(deployments), dtype=np.intp)
    for row, deployment in enumerate(deployments):
        number = numbers.setdefault(id(deployment.offer), len(offers))
        if number == len(offers):
            offers.append(deployment.offer)
        rows[row] = number
    return offers, rows


def per_value(column: Floats, function: Callable[[float], float]) -> Floats:
    """The function of each value, called once for each distinct one."""
    distinct, places = np.unique(column, return_inverse=True)
    return np.array([function(float(each)) for each in distinct], dtype=float)[places]
