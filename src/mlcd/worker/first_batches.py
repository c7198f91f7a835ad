"""A digest of what this rank trains on in its first steps: ranks with the same digest train on the same samples.

That is what becomes of DistributedDataParallel without a DistributedSampler where all ranks shuffle alike: every rank does
the whole work, and the steps of two ranks teach no more than those of one.

Nothing is concluded from batches that a sampler has shared out, from batches that are all one value (made-up data), and of
programs with several process groups, where ranks of one group may have to see the same samples (tensor parallelism).
"""

from __future__ import annotations

import hashlib
import sys
from typing import Any

from mlcd.worker.batch_samples import first_tensor
from mlcd.worker.guard import guard

STEPS = 4
_MOST_VALUES = 4096  # of a batch that are looked at


class FirstBatches:
    """Looks at the batches of the first steps; a validation before the training counts for nothing."""

    def __init__(self) -> None:
        self.looks = True
        self._hash = hashlib.blake2b(digest_size=8)
        self._steps = 0
        self._last = ""
        self._digest = ""

    @property
    def digest(self) -> str:
        """Of the first steps, once they are done; empty where nothing is to be concluded."""
        return self._digest if _has_one_group() else ""

    @guard(None)
    def fetched(self, iterator: Any, batch: Any) -> None:
        """A data loader has yielded a batch: perhaps for a step."""
        self._last = "" if _shared_out(iterator) else _values_of(first_tensor(batch))

    def stepped(self) -> None:
        """A step was done, on the batch fetched last."""
        self._steps += 1
        self._hash.update(self._last.encode())
        if not self._last:
            self.looks = False
        elif self._steps == STEPS:
            self.looks, self._digest = False, self._hash.hexdigest() if _has_one_group() else ""


def _values_of(tensor: Any) -> str:
    """Some values of a tensor on the CPU, as a text; empty where they are all the same or cannot be had for nothing."""
    if tensor is None or getattr(getattr(tensor, "device", None), "type", "") != "cpu":
        return ""
    flat = tensor.detach().reshape(-1)
    values = flat[:: max(1, flat.shape[0] // _MOST_VALUES)].tolist()
    return repr(values) if len(set(values)) > 1 else ""


def _shared_out(iterator: Any) -> bool:
    """Whether a sampler gives each rank its own part, as torch's, Lightning's and Accelerate's do."""
    sampler = getattr(iterator, "_index_sampler", None)
    levels = [sampler, getattr(sampler, "sampler", None), getattr(sampler, "batch_sampler", None)]
    return any(hasattr(level, name) for level in levels for name in ("num_replicas", "num_processes"))


def _has_one_group() -> bool:
    world = getattr(sys.modules.get("torch.distributed.distributed_c10d"), "_world", None)
    return len(getattr(world, "pg_map", ())) <= 1
