"""JAX programs that train on several workers that cannot reach each other.

    loss, gradients = loss_and_gradients(weights, batch)      jitted
    loss, gradients = average((loss, gradients), group)       over all workers
    weights = update(weights, gradients)                      jitted

Waiting for other workers has no place inside a jitted function: there `average` raises an error that says so.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from mlcd.errors import UserError
from mlcd.sync.group import Group


def average(tree: Any, group: Group) -> Any:
    """The mean over all workers of every array in a tree of them."""
    arrays, structure = _arrays(tree)
    group.all_reduce(arrays, op="mean")
    return _tree(structure, arrays)


def broadcast(tree: Any, group: Group, root: int = 0) -> Any:
    """The arrays of one worker, at all of them."""
    arrays, structure = _arrays(tree)
    group.broadcast(arrays, root)
    return _tree(structure, arrays)


def _arrays(tree: Any) -> tuple[list[Any], Any]:
    leaves, structure = jax.tree.flatten(tree)
    if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
        raise UserError(
            "Workers cannot exchange arrays inside a jitted function.",
            "Return the gradients from it, average them, and update the weights in another.",
        )
    return [np.array(leaf) for leaf in leaves], structure  # copies: JAX's own must not be written to


def _tree(structure: Any, arrays: list[Any]) -> Any:
    return jax.tree.unflatten(structure, [jax.numpy.asarray(array) for array in arrays])
