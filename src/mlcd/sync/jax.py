"""JAX programs that train on several workers that cannot reach each other.

    loss, gradients = loss_and_gradients(weights, batch)      jitted
    loss, gradients = average((loss, gradients), group)       over all workers
    weights = update(weights, gradients)                      jitted
    keep(weights, step, group)                                what `restore` gives back when a worker was lost

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


def keep(tree: Any, step: int, group: Group) -> None:
    """Keep a tree of arrays after this step, so that it outlives this program (see Group.keep)."""
    if group.keeps:
        group.keep(_arrays(tree)[0], step)


def restore(tree: Any, step: int, group: Group) -> tuple[Any, int]:
    """The newest tree that a worker has kept or is given here, and the step that it is of (see Group.restore)."""
    arrays, structure = _arrays(tree)
    newest = group.restore(arrays, step)
    return _tree(structure, arrays), newest


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
