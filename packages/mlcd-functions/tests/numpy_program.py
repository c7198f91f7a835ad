"""Linear regression on any number of functions: the program that the tests train.

It is sent to the functions as it is. The order of the data comes from mlcd.ElasticSampler, the gradients go through
mlcd.sync, and the ranks agree on the step at which they end with the same all-reduce that carries the gradients.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np

import mlcd
from mlcd.sync import join

SAMPLES, FEATURES, BATCH, RATE = 256, 8, 32, 0.05
STEPS = int(os.environ.get("STEPS", "40"))
PAUSE = float(os.environ.get("PAUSE", "0"))
DONE = os.environ.get("DONE", "")  # a folder to write down which steps were done
HOLD = bool(os.environ.get("HOLD"))  # before the last step, until there is a file `end` in that folder
KEEP = bool(os.environ.get("KEEP"))  # the newest iteration, so that a loss throws nobody back
SAVE = int(os.environ.get("SAVE", "5"))  # after so many steps
GROWS_AT = int(os.environ.get("GROWS_AT", "0"))  # the step from which on there is more to exchange


def data() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(7)
    inputs = random.normal(size=(SAMPLES, FEATURES))
    return inputs, inputs @ random.normal(size=FEATURES) + 0.1 * random.normal(size=SAMPLES)


def note_done(rank: int, step: int) -> None:
    """Write down that this rank has done this step, where a kill cannot take it back."""
    if DONE:
        handle = os.open(f"{DONE}/rank-{rank}", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(handle, f"{step} {time.time():.3f}\n".encode())
        os.close(handle)


def hold(steps_left: int) -> None:
    """Wait before the last step until a test has done all that it does to a program at work, however long that takes."""
    while HOLD and steps_left == 1 and not Path(DONE, "end").exists():
        time.sleep(0.05)


def main() -> None:
    rank, ranks = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    inputs, targets = data()
    weights, step = np.zeros(FEATURES), 0
    folder = mlcd.last_checkpoint()
    if folder is not None:
        saved = np.load(folder / "state.npz")
        weights, step = saved["weights"], int(saved["step"])
    sampler = mlcd.ElasticSampler(SAMPLES, seed=3, batch_size=BATCH, rank=rank, world_size=ranks)
    sampler.load_state_dict({"samples_seen": step * BATCH})
    with join() as group:
        if KEEP:
            step = group.restore([weights], step)
            sampler.load_state_dict({"samples_seen": step * BATCH})
        first = step
        print(f"rank {rank} begins at step {step}", flush=True)
        stop = False
        while step < STEPS and not stop:
            hold(STEPS - step)
            share = [index for index, _ in zip(sampler, range(BATCH // ranks), strict=False)]
            errors = inputs[share] @ weights - targets[share]
            sums = np.concatenate([inputs[share].T @ errors, [np.sum(errors**2)], [float(mlcd.stopping())]])
            more = np.zeros(4_000_000 if GROWS_AT and step >= GROWS_AT else 0)
            group.all_reduce([sums, more])
            weights -= RATE * sums[:FEATURES] / BATCH
            step += 1
            note_done(rank, step)
            stop = sums[-1] > 0
            sampler.load_state_dict({"samples_seen": step * BATCH})
            mlcd.report(step=step - first, samples=(step - first) * BATCH / ranks, loss=sums[-2] / BATCH)
            if KEEP:
                group.keep([weights], step)
            if rank == 0:
                print(f"step {step} loss {sums[-2] / BATCH:.15g}", flush=True)
            if rank == 0 and (stop or step == STEPS or step % SAVE == 0):
                with mlcd.checkpoint() as place:
                    np.savez(place / "state.npz", weights=weights, step=step)
            time.sleep(PAUSE)


if __name__ == "__main__":
    main()
