import pytest

from mlcd import registry
from mlcd.core.job import Direction, Target
from mlcd.core.machines import Deployment, InstanceType, Offer
from mlcd.core.task import Task, TaskKind
from mlcd.platforms.base import Node, Platform
from mlcd.platforms.command import CommandPlatform
from mlcd.platforms.pytorch import PyTorchPlatform, has_launcher


def task(run: str = "python train.py", **more: object) -> Task:
    return Task("task-1", "job-1", TaskKind.TRAINING, "pytorch", run, **more)  # type: ignore[arg-type]


def deployment(nodes: int = 1, batch_size: int | None = None) -> Deployment:
    return Deployment(Offer("local", InstanceType("2c", vcpus=2), 0.1, 8), nodes, batch_size)


def node(rank: int = 0, nodes: int = 1, gpus: int = 0, cores: int = 4, address: str = "10.0.0.") -> Node:
    addresses = tuple(f"{address}{number + 1}" for number in range(nodes))
    return Node(rank, addresses, 29500, cores, tuple(str(device) for device in range(gpus)))


@pytest.mark.parametrize(("name", "kind"), [("command", CommandPlatform), ("pytorch", PyTorchPlatform)])
def test_platforms_are_found_by_name(name: str, kind: type[Platform]) -> None:
    assert registry.load("platforms", name) is kind


@pytest.mark.parametrize("platform", [CommandPlatform(), PyTorchPlatform()])
def test_a_cpu_node_runs_one_process_with_all_its_cores(platform: Platform) -> None:
    (process,) = platform.processes(task(), deployment(3), node(rank=2, nodes=3))
    names = (
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        "NODE_RANK",
        "MASTER_ADDR",
        "MASTER_PORT",
    )
    assert [process.env[name] for name in names] == ["2", "3", "0", "1", "2", "10.0.0.1", "29500"]
    assert process.command == "python train.py"
    assert (process.env["OMP_NUM_THREADS"], process.env["CUDA_VISIBLE_DEVICES"]) == ("4", "")


def test_a_gpu_node_runs_one_process_for_each_gpu() -> None:
    first, second = PyTorchPlatform().processes(task(), deployment(2), node(rank=1, nodes=2, gpus=2))
    assert (first.env["RANK"], second.env["RANK"]) == ("2", "3")
    assert (second.env["LOCAL_RANK"], second.env["WORLD_SIZE"]) == ("1", "4")
    assert (second.env["MLCD_BACKEND"], second.env["CUDA_VISIBLE_DEVICES"]) == ("nccl", "0,1")
    assert second.env["OMP_NUM_THREADS"] == "2"


def test_cpu_nodes_are_told_to_use_gloo() -> None:
    assert PyTorchPlatform().processes(task(), deployment(), node())[0].env["MLCD_BACKEND"] == "gloo"


@pytest.mark.parametrize(
    "run",
    [
        "torchrun train.py",
        "cd src && torchrun --nproc_per_node 2 train.py",
        "python -m torch.distributed.run train.py",
        "accelerate launch train.py",
        "/opt/bin/deepspeed train.py",
        "FLAG=1 exec torchrun train.py",
    ],
)
def test_a_command_with_its_own_launcher_is_started_once_and_told_no_rank(run: str) -> None:
    assert has_launcher(run)
    (process,) = PyTorchPlatform().processes(task(run), deployment(2), node(rank=1, nodes=2, gpus=4))
    assert "RANK" not in process.env
    assert "WORLD_SIZE" not in process.env
    assert (process.env["PET_NNODES"], process.env["PET_NPROC_PER_NODE"]) == ("2", "4")


@pytest.mark.parametrize(
    "run", ["python train.py", "python torchrunner.py", "# torchrun\npython x.py", "echo my-torchrun-log"]
)
def test_a_command_without_launcher_is_told_apart(run: str) -> None:
    assert not has_launcher(run)


@pytest.mark.parametrize(
    ("batch_size", "nodes", "share"), [(64, 2, "32"), (64, 3, "21"), (2, 4, "1"), (65, 2, "32")]
)
def test_every_rank_gets_the_same_share_of_the_batch(batch_size: int, nodes: int, share: str) -> None:
    env = PyTorchPlatform().processes(task(), deployment(nodes, batch_size), node(nodes=nodes))[0].env
    assert (env["MLCD_BATCH_SIZE"], env["MLCD_LOCAL_BATCH_SIZE"]) == (str(batch_size), share)


def test_a_program_that_chooses_its_batch_size_is_told_none() -> None:
    env = CommandPlatform().processes(task(), deployment(), node())[0].env
    assert "MLCD_BATCH_SIZE" not in env
    assert "MLCD_LOCAL_BATCH_SIZE" not in env


def test_the_work_and_the_target_are_told_for_the_whole_job() -> None:
    asked = task(
        samples=800.0, samples_before=200.0, until=Target("acc", 0.97, Direction.UP), checkpoint_keep=3
    )
    env = CommandPlatform().processes(asked, deployment(), node())[0].env
    assert (env["MLCD_WORK_SAMPLES"], env["MLCD_SAMPLES_BEFORE"]) == ("1000", "200")
    assert env["MLCD_TARGET"] == '{"metric": "acc", "value": 0.97, "direction": "up"}'
    assert (env["MLCD_JOB_ID"], env["MLCD_CHECKPOINT_KEEP"]) == ("job-1", "3")


def test_a_task_without_an_amount_of_work_is_told_none() -> None:
    env = CommandPlatform().processes(task(samples_before=200.0), deployment(), node())[0].env
    assert env["MLCD_WORK_SAMPLES"] == "0"


def test_skypilots_names_are_there_too() -> None:
    env = PyTorchPlatform().processes(task(), deployment(2), node(rank=1, nodes=2, gpus=1))[0].env
    assert env["SKYPILOT_NODE_IPS"] == "10.0.0.1\n10.0.0.2"
    names = ("SKYPILOT_NODE_RANK", "SKYPILOT_NUM_NODES", "SKYPILOT_NUM_GPUS_PER_NODE")
    assert [env[name] for name in names] == ["1", "2", "1"]


def test_nodes_on_one_computer_talk_over_its_loopback_and_others_do_not() -> None:
    near = CommandPlatform().processes(task(), deployment(2), node(nodes=2, address="127.0.0."))[0].env
    far = CommandPlatform().processes(task(), deployment(2), node(nodes=2))[0].env
    assert near["GLOO_SOCKET_IFNAME"] in ("lo", "lo0")
    assert "GLOO_SOCKET_IFNAME" not in far


def test_what_the_user_has_chosen_is_left_alone() -> None:
    asked = task(envs={"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "eth7"})
    env = PyTorchPlatform().processes(asked, deployment(), node(address="127.0.0."))[0].env
    assert "OMP_NUM_THREADS" not in env
    assert "GLOO_SOCKET_IFNAME" not in env
