"""Ranks that each do the same work are distinguished from those that share it."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlcd.clouds.progress_files import ProgressReader
from worker.programs import finish, free_port, start
from worker.sessions import lines

pytest.importorskip("torch", reason="torch is not installed")
pytestmark = pytest.mark.slow

TRAINS = """
import torch
from torch.utils.data import DataLoader, TensorDataset
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for (x,) in DataLoader(TensorDataset(torch.randn(160, 4)), batch_size=16):
    model(x).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def says_alone(folder: Path, rank: int = 0) -> bool:
    """What the newest line of a rank says."""
    return bool(lines(folder / "progress", rank)[-1].get("alone", False))


def test_a_program_that_knows_nothing_of_other_ranks_trains_alone(tmp_path: Path) -> None:
    finish(start(TRAINS, tmp_path, RANK=1, WORLD_SIZE=2))
    assert says_alone(tmp_path, rank=1)


def test_so_does_one_that_loops_over_mlcd_steps(tmp_path: Path) -> None:
    loop = TRAINS.replace("in DataLoader(", "in mlcd.steps(DataLoader(").replace("=16):", "=16)):")
    finish(start("import mlcd" + loop, tmp_path, RANK=0, WORLD_SIZE=2))
    assert says_alone(tmp_path)


def test_of_one_rank_nobody_is_told_that_it_is_alone(tmp_path: Path) -> None:
    finish(start(TRAINS, tmp_path, RANK=0, WORLD_SIZE=1))
    assert not says_alone(tmp_path)


@pytest.mark.parametrize(
    "shares",
    [
        "import os\nrank = int(os.environ['RANK'])",
        "import os\nnodes = os.getenv('WORLD_SIZE')",
        "import os\nnode = os.environ.get('SKYPILOT_NODE_RANK', '0')",
        "import mlcd\nsampler = mlcd.ElasticSampler(160)",
        "import sys, types\nsys.modules['horovod'] = types.ModuleType('horovod')",
        "import mlcd.sync\nmlcd.sync.join('shm://alone', rank=0, world_size=2)",
    ],
    ids=["RANK", "WORLD_SIZE", "SKYPILOT_NODE_RANK", "ElasticSampler", "Horovod", "mlcd.sync"],
)
def test_a_program_that_knows_its_place_is_not_taken_for_alone(shares: str, tmp_path: Path) -> None:
    finish(start(shares + TRAINS, tmp_path, RANK=0, WORLD_SIZE=2))
    assert not says_alone(tmp_path)


def test_what_a_library_reads_is_not_the_programs_doing(tmp_path: Path) -> None:
    library = tmp_path / "site-packages"
    library.mkdir()
    (library / "reads.py").write_text("import os\nrank = os.environ.get('RANK')\n")
    finish(start(f"import sys\nsys.path.insert(0, {str(library)!r})\nimport reads" + TRAINS, tmp_path, WORLD_SIZE=2))
    assert says_alone(tmp_path)


def test_ranks_of_a_process_group_are_not_alone(tmp_path: Path) -> None:
    begins = "import torch.distributed\ntorch.distributed.init_process_group('gloo')"
    group = begins + TRAINS + "torch.distributed.destroy_process_group()"  # without it torch may abort at the exit
    where = {
        "WORLD_SIZE": 2,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": free_port(),
        "GLOO_SOCKET_IFNAME": "lo",
    }
    folders = [tmp_path / "0", tmp_path / "1"]
    for folder in folders:
        folder.mkdir()
    both = [start(group, folder, RANK=rank, **where) for rank, folder in enumerate(folders)]
    for process in both:
        finish(process)
    assert not any(says_alone(folder, rank) for rank, folder in enumerate(folders))


DDP = """
import torch, torch.distributed
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
torch.distributed.init_process_group("gloo")
torch.manual_seed(0)
data = TensorDataset(torch.randn(160, 4))
checked = TensorDataset(torch.arange(40.0).reshape(10, 4))
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for (x,) in DataLoader(checked, batch_size=5):  # every rank validates on all of it
    model(x)
LOADER
for (x,) in loader:
    model(x).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
torch.distributed.destroy_process_group()
"""


@pytest.mark.parametrize(
    ("loader", "alone", "samples"),
    [
        ("loader = DataLoader(data, batch_size=16, shuffle=True)", True, 160),
        ("loader = DataLoader(data, batch_size=16, sampler=DistributedSampler(data))", False, 160),
        (
            "torch.manual_seed(torch.distributed.get_rank())\nloader = DataLoader(data, 16, shuffle=True)",
            False,
            320,
        ),
        ("loader = DataLoader(TensorDataset(torch.ones(160, 4)), batch_size=16)", False, 320),
        ("group = torch.distributed.new_group([0, 1])\nloader = DataLoader(data, batch_size=16)", False, 320),
    ],
    ids=["no sampler", "DistributedSampler", "own seeds", "made-up data", "two groups"],
)
def test_ranks_of_a_group_that_train_on_the_same_samples_do_the_work_once(
    loader: str, alone: bool, samples: int, tmp_path: Path
) -> None:
    where = {
        "WORLD_SIZE": 2,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": free_port(),
        "GLOO_SOCKET_IFNAME": "lo",
    }
    both = [start(DDP.replace("LOADER", loader), tmp_path, RANK=rank, **where) for rank in range(2)]
    for process in both:
        finish(process)
    progress = ProgressReader(tmp_path / "progress", 0.0).read()
    assert not says_alone(tmp_path)
    assert (progress.alone, progress.samples) == (alone, samples)
