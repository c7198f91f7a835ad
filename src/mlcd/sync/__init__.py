"""Workers that cannot reach each other train together through stores: hybrid storage and hierarchical synchronisation.

It runs inside the training process on a function (NumPy needed; a framework only where asked for) and follows sections 3.3 and 4.3 of the SMLT paper.

Gradients, through a parameter store that only lives while training does:

    group = join("redis://:secret@host:6379", rank=0, world_size=4)    or "shm://NAME" on one machine
    group.all_reduce([gradients], op="mean")   in place, deterministic: summed in the order of the ranks
    group.broadcast([weights], root=0)         group.all_gather(array)   group.reduce_scatter(array)   group.barrier()
    group.times                                seconds in UL-shard, DL-shard, UL-aggr and DL-grad
    group.restore([weights], step)             the newest state that a worker has kept; group.keep([weights], step) keeps it
    group.close()

A torch program needs no change: with MLCD_SYNC_URL in its environment (and the bundle of mlcd.worker in its PYTHONPATH),
init_process_group() uses these stores whatever backend it names. See mlcd.sync.pytorch.

Keras and JAX programs exchange by a line or two: mlcd.sync.keras.share(model, group), mlcd.sync.jax.average(gradients, group).

What is left of stores:

    remove_segments("NAME")                    what killed workers left of shm://NAME; no error where there is nothing
    remove_task("redis://…", "TASK")           what a task left on servers that it shares with others

What the function task runner sets for each worker:

    MLCD_SYNC_URL          the parameter store, as above
    MLCD_SYNC_STORE        the same, where workers reach each other: join() takes it, torch keeps its own backends
    MLCD_SYNC_TASK         what its keys begin with, where several tasks share servers
    MLCD_SYNC_GENERATION   0, 1, 2 …: one more whenever workers start anew; no key of an older one is ever read again
    MLCD_SYNC_TIMEOUT      seconds to wait for another worker; default 300
    MLCD_SYNC_KEEP         a folder that outlives the program: where group.keep() keeps the newest iteration
    MLCD_SYNC_POSITION     of a worker that alone is restarted at an iteration boundary: group.position as it left
    RANK, WORLD_SIZE

Where a worker is missing for longer than the timeout, all others raise SyncTimeout, whose .ranks are the missing ones.
Restart those and let everybody join() the next generation.

SyncError
├── SyncTimeout                ranks: who is missing
├── StaleWorker                a newer generation has begun: this process is to end
├── StoreLost                  the parameter store cannot be reached, or was restarted
└── StoreFull                  the parameter store is out of memory
"""

from __future__ import annotations

from mlcd.sync.errors import StaleWorker, StoreFull, StoreLost, SyncError, SyncTimeout
from mlcd.sync.group import Group, join
from mlcd.sync.shm.store import remove_segments
from mlcd.sync.valkey.keys import remove_task

__all__ = [
    "Group",
    "StaleWorker",
    "StoreFull",
    "StoreLost",
    "SyncError",
    "SyncTimeout",
    "join",
    "remove_segments",
    "remove_task",
]
