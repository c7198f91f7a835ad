"""Which rank of how many this process is: as torch.distributed says once it has begun, before that by environment.

What a process group has said holds when the program has ended it, too: the last lines of its progress come after that.
"""

from __future__ import annotations

import sys
from typing import Any

from mlcd.worker.environment import Environment
from mlcd.worker.service_stores import service_store


def distributed() -> Any:
    """torch.distributed where the program has imported it and started its process group; else None."""
    module = sys.modules.get("torch.distributed")
    try:
        ready = module is not None and module.is_available() and module.is_initialized()
    except (AttributeError, RuntimeError):  # half-way through its import
        return None
    return module if ready else None


def in_group() -> bool:
    """Whether this process is a rank of a process group, or was one of a group that has ended."""
    return _place() is not None


def rank(env: Environment) -> int:
    """This process's number among all."""
    place = _place()
    return env.rank if place is None else place[0]


def world_size(env: Environment) -> int:
    """How many ranks train together; parameter servers, which come last, do not."""
    place = _place()
    everyone = env.world_size if place is None else place[1]
    return max(1, everyone - env.servers)


def forget_group() -> None:
    """In the child of a fork: an ended group was its parent's."""
    global _known
    _known = None


def shared_store() -> Any:
    """The key-value store that all ranks share: of torch's process group, or of TensorFlow's or JAX's ranks; None: there is none."""
    if distributed() is None:
        return service_store()
    module = sys.modules.get("torch.distributed.distributed_c10d")
    try:
        return module._get_default_store() if module else None
    except (
        AttributeError,
        ValueError,
        RuntimeError,
        KeyError,
    ):  # private to torch; without it each rank decides alone
        return None


_known: tuple[int, int] | None = None  # rank and number of ranks, as the group said when it was last asked


def _place() -> tuple[int, int] | None:
    global _known
    group = distributed()
    if group is not None:
        _known = int(group.get_rank()), int(group.get_world_size())
    return _known
