"""Whether the ranks of a program share the work, or each of them trains the same for itself.

A program that knows nothing of other nodes does the whole training on every one of them: twice the money, not twice the
speed. It is taken for one that trains alone where it makes steps, there are several ranks, and nothing speaks for sharing:

    a process group    torch.distributed, its RPC, jax.distributed, or a group of mlcd.sync
    a library          Horovod, MPI, BytePS, XLA, MXNet, Ray or Dask, imported
    its place          the program itself has read RANK, WORLD_SIZE, TF_CONFIG … from its environment, or `run` hands such a
                       variable on; without torch, whose libraries read them unasked, a library may have read it as well
    its samples        it takes them from an mlcd.ElasticSampler

Nothing is known of programs that mlcd counts by their log alone, and of Python that was started without mlcd's startup.
"""

from __future__ import annotations

import os
import sys

import mlcd.worker.ranks as ranks
from mlcd.worker.environment import Environment

_LIBRARIES = ("horovod", "mpi4py.MPI", "byteps", "bagua", "torch_xla", "mxnet", "ray", "distributed")


def shares_work(env: Environment) -> bool:
    """Whether anything in this process speaks for sharing, or there is nobody to share with."""
    return (
        env.world_size - env.servers < 2
        or env.place_given
        or ranks.in_group()
        or _knows_place()
        or any(name in sys.modules for name in _LIBRARIES)
        or _has_rpc()
        or _has_jax_group()
        or bool(getattr(sys.modules.get("mlcd.sync.group"), "joined", 0))
    )


def _knows_place() -> bool:
    """Whether the program has read its place, or nobody took note of what it reads (see startup)."""
    readers = getattr(os.environ.encodekey, "places_read", None)  # type: ignore[attr-defined, unused-ignore]
    return readers is None or "program" in readers or ("library" in readers and "torch" not in sys.modules)


def _has_jax_group() -> bool:
    state = getattr(sys.modules.get("jax._src.distributed"), "global_state", None)
    return getattr(state, "client", None) is not None


def _has_rpc() -> bool:
    module = sys.modules.get("torch.distributed.rpc")
    try:
        return bool(module is not None and module._is_current_rpc_agent_set())
    except (AttributeError, RuntimeError):  # this torch has none
        return False
