"""Runs inside the training process: counts steps, reports progress, keeps checkpoints, and says when to stop.

Standard library only, Python 3.9 or newer, because it runs in the user's environment. No error of mlcd reaches the
training, and outside mlcd every function does nothing.

    for batch in mlcd.steps(loader):         counts steps and samples; ends when the work is done or a stop was asked for
        loss = train(batch)
        mlcd.report(loss=loss)               metrics, the newest value about every half second
    with mlcd.checkpoint() as folder:        committed on leaving, by rank 0
        torch.save(state, folder / "state.pt")
    mlcd.checkpoint_due()                    whether to save now: as often as pays (see mlcd.worker.saving)
    mlcd.last_checkpoint()                   the newest complete checkpoint, or None
    mlcd.stopping()                          whether to save and end
    mlcd.batch_size(64)                      of all ranks, as mlcd chose it; local_batch_size(64) is for one rank's loader
    mlcd.accumulation_steps()                backward passes to each step of the optimizer
    mlcd.lr_scale()                          the factor for the learning rate at that batch size
    mlcd.ElasticSampler(dataset)             the order of the data goes on where it stopped, on any number of ranks

What a cloud and a platform set:

    MLCD_TASK_ID, MLCD_JOB_ID    the job's id stays the same over all attempts
    MLCD_PROGRESS_DIR            each rank appends lines to rank-<RANK>.jsonl here
    MLCD_CHECKPOINT_DIR          committed checkpoints, shared by all attempts
    MLCD_CHECKPOINT_KEEP         how many of them to keep; absent: all
    MLCD_CHECKPOINT_PATH         where the program keeps checkpoints of its own, relative to MLCD_WORKDIR; absent: nowhere
    MLCD_SAVE_SECONDS            between two saves, where the job says so; absent: see mlcd.worker.saving
    MLCD_LOSS_SECONDS            mean time between two losses of what is trained on; absent: no checkpoint is ever due
    MLCD_WORKDIR                 the working copy of the job's folder, in which the command was started
    MLCD_OUTPUT_DIR              what the program leaves here is the model
    MLCD_BATCH_SIZE              of all ranks together, where mlcd chose it; MLCD_LOCAL_BATCH_SIZE is one rank's share
    MLCD_BASE_BATCH_SIZE         for which the program's own learning rate was chosen
    MLCD_ACCUMULATION_STEPS      backward passes to each step of the optimizer, where a rank cannot hold its share; default 1
    MLCD_LR_RULE                 none, linear, sqrt or adascale: what lr_scale() follows
    MLCD_LR_SCALE                its value, where mlcd has worked it out; else it is worked out from the batch sizes
    MLCD_NOISE                   1: measure the gradient noise (see mlcd.worker.noise); default 0
    MLCD_NOISE_SCALE             in samples, as earlier attempts measured it, for adascale
    MLCD_WORK_SAMPLES            of the whole job, over all ranks and attempts; absent or 0: until the program ends
    MLCD_EPOCH_SAMPLES           of the data set, where the job tells its size
    MLCD_SAMPLES_BEFORE          done by earlier attempts
    MLCD_TARGET                  {"metric": "val_acc", "value": 0.97, "direction": "up"}
    RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, NODE_RANK, MASTER_ADDR, MASTER_PORT as torchrun sets them

A progress line, written by a thread about every half second (every five seconds after the first hours) where something
is new, and on exit:

    {"t": 1763260000.25, "steps": 120, "samples": 3840, "metrics": {"loss": 0.31}, "process": "4711-9f2c"}

    t          seconds since the epoch, of the last step counted
    steps      done by this process since it began; where it goes on from a newer state than the checkpoint that it was
               started with (see mlcd.sync), those between the two are counted, too
    samples    likewise: this rank's, not those of all ranks
    metrics    the newest value of each metric reported since the last line; absent where there is none; "nan", "inf" or "-inf"
               stands for what is not finite
    step       the program's own number of the step at which the metrics were reported; absent where it gave none
    process    distinguishes one process from the next that reports for the same rank
    saved      [t, samples]: at t a file below MLCD_CHECKPOINT_PATH was last changed, when the job had done so many samples,
               over all ranks and attempts; absent where there is nothing new
    alone      true where the ranks do not share the work: each trains the same for itself (see mlcd.worker.sharing)
    data       a digest of what this rank trained on in its first steps, where there are several ranks: equal ones train on the
               same samples (see mlcd.worker.first_batches)
    saving     [every, takes, M]: seconds between two saves, what one takes, and the mean time between two losses, where the
               program asks mlcd.checkpoint_due()
    end        true on the last line of a process that ended by itself

A line that cannot be parsed (torn by a full disk or a kill) is skipped; the counts are cumulative, so nothing is lost.

A checkpoint is a folder <sequence>-<samples> of MLCD_CHECKPOINT_DIR with the program's files and manifest.json:

    {"format": 1, "sequence": 7, "samples": 38400, "steps": 1200, "metrics": {"loss": 0.31}, "task_id": "…",
     "committed_at": 1763260000.25, "files": {"state.pt": {"bytes": 1048576, "sha256": "…"}}}

It is complete if every file named there has its size and hash. The manifest is written last, into a folder whose name
starts with a dot, and the folder then gets its name in one atomic step.
"""

from __future__ import annotations

from mlcd.worker.api import checkpoint, checkpoint_due, last_checkpoint, report, steps, stopping
from mlcd.worker.bundle import write_bundle
from mlcd.worker.checkpoints import Checkpoint, complete_checkpoints
from mlcd.worker.elastic import ElasticSampler
from mlcd.worker.tuning import accumulation_steps, batch_size, local_batch_size, lr_scale

__all__ = [
    "Checkpoint",
    "ElasticSampler",
    "accumulation_steps",
    "batch_size",
    "checkpoint",
    "checkpoint_due",
    "complete_checkpoints",
    "last_checkpoint",
    "local_batch_size",
    "lr_scale",
    "report",
    "steps",
    "stopping",
    "write_bundle",
]
