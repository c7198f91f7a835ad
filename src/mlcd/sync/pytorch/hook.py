"""Gives every process group of a torch program the backend `mlcd`, whatever the program asks for.

Installed by the bundle's sitecustomize (see mlcd.worker.startup) when the program imports torch.distributed and
MLCD_SYNC_URL is set. Nothing of torch's own rendezvous is left: workers that cannot reach each other meet in the store.
"""

from __future__ import annotations

import functools
import os
from typing import Any


def hook_process_groups(module: Any) -> None:
    """Wrap init_process_group and new_group of torch.distributed.distributed_c10d."""
    module.init_process_group = _wrap_init(module.init_process_group)
    module.new_group = _wrap_new(module.new_group)


def _wrap_init(init: Any) -> Any:
    @functools.wraps(init)
    def init_process_group(
        backend: Any = None,
        init_method: Any = None,
        timeout: Any = None,
        world_size: int = -1,
        rank: int = -1,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        import mlcd.sync.pytorch.backend  # noqa: F401  # registers itself
        from mlcd.sync.pytorch.store import shared_store

        workers = world_size if world_size > 0 else int(os.environ.get("WORLD_SIZE", 1))
        number = rank if rank >= 0 else int(os.environ.get("RANK", 0))
        init("mlcd", timeout=timeout, world_size=workers, rank=number, store=shared_store(workers))

    return init_process_group


def _wrap_new(new: Any) -> Any:
    @functools.wraps(new)
    def new_group(ranks: Any = None, timeout: Any = None, backend: Any = None, *args: Any, **kwargs: Any) -> Any:
        return new(ranks, timeout, "mlcd", *args, **kwargs)

    return new_group
