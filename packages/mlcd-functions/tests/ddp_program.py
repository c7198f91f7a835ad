"""An ordinary DistributedDataParallel program that saves when mlcd says so: what the tests train and kill."""

from __future__ import annotations

import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

import mlcd
from numpy_program import hold, note_done

STEPS, PAUSE = int(os.environ["STEPS"]), float(os.environ["PAUSE"])
RANK = int(os.environ["RANK"])


def main() -> None:
    dist.init_process_group("gloo")
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    step, folder = 0, mlcd.last_checkpoint()
    if folder is not None:
        state = torch.load(folder / "state.pt")
        model.load_state_dict(state["model"])
        step = state["step"]
    trained, data = DistributedDataParallel(model), TensorDataset(torch.randn(4096, 8))
    loader = DataLoader(data, batch_size=4, sampler=mlcd.ElasticSampler(data, batch_size=8))
    for (inputs,) in mlcd.steps(loader):
        hold(STEPS - step)
        trained(inputs).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        step += 1
        note_done(RANK, step)
        if mlcd.checkpoint_due() or mlcd.stopping():
            with mlcd.checkpoint() as place:
                torch.save({"model": model.state_dict(), "step": step}, place / "state.pt")
            print(f"saved {step} at {time.time():.3f}", flush=True)
        if step >= STEPS:
            break
        time.sleep(PAUSE)


if __name__ == "__main__":
    main()
