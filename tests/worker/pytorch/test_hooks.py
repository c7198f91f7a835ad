from pathlib import Path

import pytest

from worker.programs import finish, free_port, start
from worker.sessions import Inside, lines

torch = pytest.importorskip("torch", reason="torch is not installed")

from mlcd.worker.pytorch.hooks import Observer  # noqa: E402  # needs torch


class Thing:
    """An iterator or an optimizer: the observer only asks which one it is."""


def test_a_step_counts_the_batches_fetched_since_the_last_one(inside: Inside) -> None:
    session, observer = inside(), Observer()
    loader, optimizer = Thing(), Thing()
    for _ in range(3):
        observer.fetched(loader, torch.zeros(8, 2))
        observer.fetched(loader, (torch.zeros(8, 2), torch.zeros(8)))
        observer.stepped(optimizer)
    assert session.counts.now[1:] == (3, 48)


def test_a_validation_loader_counts_for_nothing(inside: Inside) -> None:
    session, observer = inside(), Observer()
    train, valid, optimizer = Thing(), Thing(), Thing()
    for _ in range(2):
        observer.fetched(train, torch.zeros(8))
        observer.stepped(optimizer)
        for _ in range(5):
            observer.fetched(valid, torch.zeros(100))
    assert session.counts.now[1:] == (2, 16)


@pytest.mark.slow
def test_a_validation_in_a_real_program_is_seen_to_live(tmp_path: Path) -> None:
    program = """
        import time, torch
        from torch.utils.data import DataLoader
        weight = torch.nn.Parameter(torch.zeros(1))
        optimizer = torch.optim.SGD([weight], lr=0.1)
        for batch in DataLoader(torch.ones(40, 1), batch_size=10):
            (weight * batch).sum().backward()
            optimizer.step()
        for batch in DataLoader(torch.ones(40, 1), batch_size=10):
            time.sleep(1.0)
    """
    finish(start(program, tmp_path))
    trained = [line for line in lines(tmp_path / "progress") if line["samples"] == 40 and not line.get("end")]
    assert trained[-1]["t"] > trained[0]["t"] + 1.0


def test_the_first_of_several_optimizers_counts_the_steps(inside: Inside) -> None:
    session, observer = inside(), Observer()
    loader, generator, critic = Thing(), Thing(), Thing()
    for _ in range(4):
        observer.fetched(loader, torch.zeros(8))
        observer.stepped(generator)
        observer.stepped(critic)
    assert session.counts.now[1:] == (4, 32)


def test_another_optimizer_takes_over_when_the_first_is_gone_or_rests(inside: Inside) -> None:
    session, observer = inside(), Observer()
    loader, resting = Thing(), Thing()
    observer.fetched(loader, torch.zeros(8))
    observer.stepped(resting)
    second = Thing()
    for _ in range(500):
        observer.fetched(loader, torch.zeros(8))
        observer.stepped(second)
    assert session.counts.now.steps > 250
    assert session.counts.now.samples == 501 * 8


def test_without_a_loader_the_batch_is_learned_from_the_outermost_module(inside: Inside) -> None:
    session, observer = inside(MLCD_LOCAL_BATCH_SIZE=5), Observer()
    model, optimizer = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 1)), Thing()
    for _ in range(6):
        model(torch.zeros(16, 2))
        model(torch.zeros(16, 2))  # accumulated
        observer.stepped(optimizer)
    assert session.counts.now[1:] == (6, 6 * 32)
    assert not torch.nn.modules.module._global_forward_pre_hooks


def test_without_loader_and_module_the_local_batch_size_is_believed(inside: Inside) -> None:
    session, observer, optimizer = inside(MLCD_LOCAL_BATCH_SIZE=5), Observer(), Thing()
    for _ in range(4):
        observer.stepped(optimizer)
    assert session.counts.now[1:] == (4, 20)
    observer._learner._handle.remove()  # type: ignore[union-attr]


DATA = """
import torch
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.randn(120, 4), torch.randn(120, 1))
train = DataLoader(data, batch_size=10, num_workers=WORKERS)
valid = DataLoader(data, batch_size=60)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
"""


@pytest.mark.slow
def test_a_program_that_knows_nothing_of_mlcd_is_counted(tmp_path: Path) -> None:
    program = (
        DATA.replace("WORKERS", "1")
        + """
for epoch in range(2):
    for number, (x, y) in enumerate(train):
        ((model(x) - y) ** 2).mean().backward()
        if number % 2:
            optimizer.step()
            optimizer.zero_grad()
    for x, y in valid:
        model(x)
"""
    )
    finish(start(program, tmp_path))
    last = lines(tmp_path / "progress")[-1]
    assert (last["steps"], last["samples"], last["end"]) == (12, 240, True)
    assert len(list((tmp_path / "progress").iterdir())) == 1


@pytest.mark.slow
def test_a_program_that_uses_steps_is_not_counted_twice(tmp_path: Path) -> None:
    program = (
        DATA.replace("WORKERS", "0")
        + """
import mlcd
for x, y in mlcd.steps(train):
    ((model(x) - y) ** 2).mean().backward()
    optimizer.step()
"""
    )
    finish(start(program, tmp_path))
    last = lines(tmp_path / "progress")[-1]
    assert (last["steps"], last["samples"]) == (12, 120)


@pytest.mark.slow
@pytest.mark.parametrize("last", ["dist.barrier()", "dist.destroy_process_group()"])
def test_ranks_that_a_program_spawns_by_itself_are_counted(last: str, tmp_path: Path) -> None:
    program = f"""
    import os, torch
    import torch.distributed as dist
    from torch.utils.data import DataLoader, TensorDataset

    def train(rank):
        address = "tcp://127.0.0.1:{free_port()}"
        dist.init_process_group("gloo", init_method=address, rank=rank, world_size=2)
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for (x,) in DataLoader(TensorDataset(torch.randn(40, 4)), batch_size=4):
            model(x).mean().backward()
            optimizer.step()
        {last}

    if __name__ == "__main__":
        torch.multiprocessing.spawn(train, nprocs=2)
    """
    finish(start(program, tmp_path, GLOO_SOCKET_IFNAME="lo"))
    for rank in range(2):
        line = lines(tmp_path / "progress", rank)[-1]
        assert (line["steps"], line["samples"]) == (10, 40)


@pytest.mark.slow
def test_a_program_without_mlcd_dies_of_sigterm_as_ever(tmp_path: Path) -> None:
    program = """
    import os, signal, torch
    parameter = torch.nn.Parameter(torch.zeros(1))
    parameter.grad = torch.ones(1)
    torch.optim.SGD([parameter], lr=0.1).step()
    os.kill(os.getpid(), signal.SIGTERM)
    print("still here")
    """
    process = start(program, tmp_path)
    output, _ = process.communicate(timeout=60)
    assert (process.returncode, output) == (-15, "")


@pytest.mark.slow
def test_the_size_of_the_model_is_told_when_it_changes(tmp_path: Path) -> None:
    program = """
        import time, torch, mlcd
        def train(model, steps):
            optimizer, critic = (torch.optim.SGD(model.parameters(), lr=0.1) for _ in range(2))
            for _ in range(steps):
                model(torch.zeros(4, 10)).sum().backward()
                optimizer.step()
                critic.step()
            time.sleep(1.5)  # newest values are told about once a second
            return optimizer
        optimizer = train(torch.nn.Linear(10, 10, bias=False), 5)
        del optimizer
        optimizer = train(torch.nn.Linear(10, 30, bias=False), 5)
        layer = torch.nn.Linear(30, 1, bias=False)
        optimizer.add_param_group({"params": layer.parameters()})
        for _ in mlcd.steps(range(3)):
            optimizer.step()
            time.sleep(0.6)
    """
    finish(start(program, tmp_path))
    told = [line.get("metrics", {}).get("mlcd/parameters") for line in lines(tmp_path / "progress")]
    assert [value for value in told if value is not None] == [100.0, 300.0, 330.0]


COMPILED_MODEL = """
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = torch.nn.Linear(4, 8), torch.nn.Linear(8, 1)

        def forward(self, x):
            return self.last(torch.relu(self.first(x)))

    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    {compiling}
    for size in (48, *[64] * 7):  # another size at the beginning: it is compiled twice
        optimizer.zero_grad()
        fast(torch.randn(size, 4)).sum().backward()
        optimizer.step()
"""


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0, 1])
@pytest.mark.parametrize(
    "compiling",
    [
        'fast = torch.compile(model, backend="eager")',
        'fast = torch.compile(model, backend="eager", fullgraph=True)',
        'fast = model; model.compile(backend="eager", fullgraph=True)',
    ],
)
def test_a_compiled_model_without_a_loader_trains_and_is_counted(tmp_path: Path, compiling: str, noise: int) -> None:
    finish(start(COMPILED_MODEL.format(compiling=compiling), tmp_path, MLCD_NOISE=noise))
    last = lines(tmp_path / "progress")[-1]
    assert (last["steps"], last["samples"]) == (8, 512)
