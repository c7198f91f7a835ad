"""Which rank of how many this process is: as torch.distributed says once it has begun, before that by environment."""

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


def rank(env: Environment) -> int:
    """This process's number among all."""
    group = distributed()
    return int(group.get_rank()) if group else env.rank


def world_size(env: Environment) -> int:
    """How many ranks train together; parameter servers, which come last, do not."""
    group = distributed()
    everyone = int(group.get_world_size()) if group else env.world_size
    return max(1, everyone - env.servers)


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
