import json
import os
import subprocess
from pathlib import Path

import pytest

from mlcd import registry
from mlcd.core.job import Direction, Target, Topology
from mlcd.core.machines import Deployment, InstanceType, Offer
from mlcd.core.task import Task, TaskKind
from mlcd.platforms.base import Node, Platform, Process
from mlcd.platforms.command import CommandPlatform
from mlcd.platforms.jax import JaxPlatform
from mlcd.platforms.mxnet import MXNetPlatform
from mlcd.platforms.pytorch import PyTorchPlatform, has_launcher
from mlcd.platforms.spark import AWAIT_MASTER, SparkPlatform
from mlcd.platforms.tensorflow import TensorFlowPlatform


def task(run: str = "python train.py", **more: object) -> Task:
    return Task("task-1", "job-1", TaskKind.TRAINING, "pytorch", run, **more)  # type: ignore[arg-type]


def deployment(nodes: int = 1, batch_size: int | None = None, servers: int = 0) -> Deployment:
    offer = Offer("local", InstanceType("2c", vcpus=2), 0.1, 8)
    return Deployment(offer, nodes, batch_size, servers=servers)


def node(rank: int = 0, nodes: int = 1, gpus: int = 0, cores: int = 4, address: str = "10.0.0.") -> Node:
    addresses = tuple(f"{address}{number + 1}" for number in range(nodes))
    return Node(rank, addresses, 29500, cores, tuple(str(device) for device in range(gpus)))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("command", CommandPlatform),
        ("jax", JaxPlatform),
        ("mxnet", MXNetPlatform),
        ("pytorch", PyTorchPlatform),
        ("spark", SparkPlatform),
        ("tensorflow", TensorFlowPlatform),
    ],
)
def test_platforms_are_found_by_name(name: str, kind: type[Platform]) -> None:
    assert registry.load("platforms", name) is kind


@pytest.mark.parametrize("platform", [CommandPlatform(), JaxPlatform(), PyTorchPlatform(), TensorFlowPlatform()])
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


@pytest.mark.parametrize(("batch_size", "nodes", "share"), [(64, 2, "32"), (64, 3, "21"), (2, 4, "1"), (65, 2, "32")])
def test_every_rank_gets_the_same_share_of_the_batch(batch_size: int, nodes: int, share: str) -> None:
    env = PyTorchPlatform().processes(task(), deployment(nodes, batch_size), node(nodes=nodes))[0].env
    assert (env["MLCD_BATCH_SIZE"], env["MLCD_LOCAL_BATCH_SIZE"]) == (str(batch_size), share)


def test_a_program_that_chooses_its_batch_size_is_told_none() -> None:
    env = CommandPlatform().processes(task(), deployment(), node())[0].env
    assert "MLCD_BATCH_SIZE" not in env
    assert "MLCD_LOCAL_BATCH_SIZE" not in env


def test_the_work_and_the_target_are_told_for_the_whole_job() -> None:
    asked = task(samples=800.0, samples_before=200.0, until=Target("acc", 0.97, Direction.UP), checkpoint_keep=3)
    env = CommandPlatform().processes(asked, deployment(), node())[0].env
    assert (env["MLCD_WORK_SAMPLES"], env["MLCD_SAMPLES_BEFORE"]) == ("1000", "200")
    assert env["MLCD_TARGET"] == '{"metric": "acc", "value": 0.97, "direction": "up"}'
    assert (env["MLCD_JOB_ID"], env["MLCD_CHECKPOINT_KEEP"]) == ("job-1", "3")


def test_a_task_without_an_amount_of_work_is_told_none() -> None:
    env = CommandPlatform().processes(task(samples_before=200.0), deployment(), node())[0].env
    assert env["MLCD_WORK_SAMPLES"] == "0"


@pytest.mark.parametrize(
    ("samples", "before", "told"),
    [(10.5, 0.0, "11"), (10.4, 0.0, "11"), (6.5, 4.0, "11"), (10.0000000001, 0.0, "10")],
)
def test_a_part_of_a_sample_is_told_as_a_whole_one(samples: float, before: float, told: str) -> None:
    asked = task(samples=samples, samples_before=before)
    env = CommandPlatform().processes(asked, deployment(), node())[0].env
    assert env["MLCD_WORK_SAMPLES"] == told


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


@pytest.mark.parametrize("platform", [CommandPlatform(), PyTorchPlatform()])
def test_the_last_nodes_serve_and_are_told_so(platform: Platform) -> None:
    asked = deployment(4, batch_size=60, servers=1)
    nodes = [platform.processes(task(), asked, node(rank, nodes=4))[0] for rank in range(4)]
    assert [process.env["MLCD_ROLE"] for process in nodes] == ["worker", "worker", "worker", "server"]
    assert [process.serves for process in nodes] == [False, False, False, True]
    assert [process.env["RANK"] for process in nodes] == ["0", "1", "2", "3"]
    assert {process.env["WORLD_SIZE"] for process in nodes} == {"4"}
    first = nodes[0].env
    assert (first["MLCD_WORKERS"], first["MLCD_SERVERS"], first["MLCD_LOCAL_BATCH_SIZE"]) == ("3", "1", "20")
    assert first["MLCD_SERVER_ADDRESSES"] == "10.0.0.4:29504"


def test_a_server_on_a_gpu_node_is_one_process_after_all_workers() -> None:
    asked = deployment(3, servers=1)
    workers = PyTorchPlatform().processes(task(), asked, node(rank=1, nodes=3, gpus=2))
    (server,) = PyTorchPlatform().processes(task(), asked, node(rank=2, nodes=3, gpus=2))
    assert [process.env["RANK"] for process in workers] == ["2", "3"]
    assert (server.env["RANK"], server.env["WORLD_SIZE"], server.env["MLCD_WORKERS"]) == ("4", "5", "4")
    assert {process.env["MLCD_BACKEND"] for process in (*workers, server)} == {"gloo"}


def test_without_parameter_servers_no_role_is_told() -> None:
    env = PyTorchPlatform().processes(task(), deployment(2), node(nodes=2))[0].env
    assert not [name for name in env if name.startswith(("MLCD_ROLE", "MLCD_SERVER", "MLCD_WORKERS"))]


def test_jax_is_told_where_its_coordinator_is() -> None:
    (process,) = JaxPlatform().processes(task(), deployment(2), node(rank=1, nodes=2))
    names = ("JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID")
    assert [process.env[name] for name in names] == ["10.0.0.1:29500", "2", "1"]
    assert JaxPlatform.topologies == (Topology.ALLREDUCE,)


def test_tensorflow_workers_know_each_other() -> None:
    (process,) = TensorFlowPlatform().processes(task(), deployment(2), node(rank=1, nodes=2, gpus=2))
    assert json.loads(process.env["TF_CONFIG"]) == {
        "cluster": {"worker": ["10.0.0.1:29501", "10.0.0.2:29502"]},
        "task": {"type": "worker", "index": 1},
    }
    assert "TF_CONFIG" not in TensorFlowPlatform().processes(task(), deployment(), node())[0].env


def test_tensorflows_chief_trains_through_servers_on_every_node() -> None:
    asked = deployment(3, servers=1)
    nodes = [TensorFlowPlatform().processes(task(), asked, node(rank, nodes=3)) for rank in range(3)]
    config = [[json.loads(process.env["TF_CONFIG"]) for process in processes] for processes in nodes]
    assert config[0][0]["cluster"] == {
        "chief": ["10.0.0.1:29500"],
        "worker": ["10.0.0.1:29501", "10.0.0.2:29502"],
        "ps": ["10.0.0.3:29503"],
    }
    places = [[(each["task"]["type"], each["task"]["index"]) for each in one] for one in config]
    assert places == [[("chief", 0), ("worker", 0)], [("worker", 1)], [("ps", 0)]]
    assert [[process.serves for process in processes] for processes in nodes] == [
        [False, True],
        [True],
        [True],
    ]
    chief = nodes[0][0].env
    assert (chief["RANK"], chief["WORLD_SIZE"], chief["MLCD_ROLE"]) == ("0", "1", "worker")


def test_mxnet_has_a_scheduler_workers_and_servers_apart() -> None:
    asked = deployment(3, servers=1)
    nodes = [MXNetPlatform().processes(task(), asked, node(rank, nodes=3)) for rank in range(3)]
    roles = [[process.env["DMLC_ROLE"] for process in processes] for processes in nodes]
    assert roles == [["worker", "scheduler"], ["worker"], ["server"]]
    env = nodes[1][0].env
    names = ("DMLC_PS_ROOT_URI", "DMLC_PS_ROOT_PORT", "DMLC_NUM_WORKER", "DMLC_NUM_SERVER", "DMLC_NODE_HOST")
    assert [env[name] for name in names] == ["10.0.0.1", "29500", "2", "1", "10.0.0.2"]


def test_mxnet_without_servers_of_their_own_serves_beside_each_worker() -> None:
    nodes = [MXNetPlatform().processes(task(), deployment(2), node(rank, nodes=2)) for rank in range(2)]
    roles = [[process.env["DMLC_ROLE"] for process in processes] for processes in nodes]
    assert roles == [["worker", "server", "scheduler"], ["worker", "server"]]
    assert nodes[0][0].env["DMLC_NUM_SERVER"] == "2"
    assert [process.serves for process in nodes[0]] == [False, True, True]


@pytest.mark.parametrize(
    ("run", "given"),
    [
        ("python train.py", False),
        ("python train.py --shard $RANK", True),
        ("python train.py --shard=${SKYPILOT_NODE_RANK} --home $HOME", True),
        ("python train.py --seed $RANKING", False),
        ("torchrun --node-rank $NODE_RANK train.py", False),  # for torchrun, which tells the program by RANK
    ],
)
def test_a_program_that_is_given_its_place_by_its_command_is_known(run: str, given: bool) -> None:
    env = PyTorchPlatform().processes(task(run), deployment(2), node(nodes=2))[0].env
    assert ("MLCD_PLACE_GIVEN" in env) is given


def spark_on(nodes: int, memory_gib: float = 8.0, run: str = "python train.py", **more: object) -> list[list[Process]]:
    instance = InstanceType("4c", vcpus=4, memory_gib=memory_gib)
    asked = Deployment(Offer("local", instance, 0.1, 8), nodes)
    return [list(SparkPlatform().processes(task(run, **more), asked, node(rank, nodes))) for rank in range(nodes)]


def test_sparks_program_is_the_driver_of_a_cluster_of_all_nodes() -> None:
    first, second = spark_on(2)
    driver, master, worker = first
    (other,) = second
    assert [process.serves for process in (driver, master, worker, other)] == [False, True, True, True]
    assert driver.command.endswith("\npython train.py")
    assert master.command.endswith("exec spark-class org.apache.spark.deploy.master.Master")
    assert worker.command == other.command
    assert {process.env["MASTER"] for process in (driver, master, worker, other)} == {"spark://10.0.0.1:29500"}
    names = ("SPARK_LOCAL_IP", "SPARK_WORKER_PORT", "SPARK_WORKER_CORES", "SPARK_WORKER_MEMORY")
    assert [other.env[name] for name in names] == ["10.0.0.2", "29502", "4", "8192m"]
    assert "-Dspark.cores.max=8" in driver.env["SPARK_SUBMIT_OPTS"]
    assert (driver.env["SPARK_EXECUTOR_MEMORY"], driver.env["SPARK_DRIVER_MEMORY"]) == ("4096m", "1638m")


def test_spark_gets_as_little_memory_as_it_takes_or_as_the_job_says() -> None:
    assert spark_on(1, memory_gib=0.5)[0][0].env["SPARK_DRIVER_MEMORY"] == "512m"
    assert "SPARK_EXECUTOR_MEMORY" not in spark_on(1, memory_gib=0.0)[0][0].env
    assert "SPARK_EXECUTOR_MEMORY" not in spark_on(1, envs={"SPARK_EXECUTOR_MEMORY": "1g"})[0][0].env


def test_a_program_is_told_the_size_of_its_data_set_where_the_job_tells_it() -> None:
    assert spark_on(1, samples_per_epoch=1437.0)[0][0].env["MLCD_EPOCH_SAMPLES"] == "1437"
    assert "MLCD_EPOCH_SAMPLES" not in spark_on(1)[0][0].env


def test_a_node_without_spark_or_java_says_what_to_install(tmp_path: Path) -> None:
    ((driver, *_),) = spark_on(1)
    (tmp_path / "spark-class").write_text("#!/bin/sh\n")
    (tmp_path / "spark-class").chmod(0o755)
    for path, missing in (("/nowhere", "spark-class"), (str(tmp_path), "java")):
        done = subprocess.run(
            ["/bin/bash", "-c", driver.command],
            env={**driver.env, "PATH": path, "MLCD_WORKDIR": "/nowhere"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 127
        assert f"platform spark: there is no {missing} here; add '" in done.stderr


def fake(folder: Path, *names: str) -> Path:
    """A folder with programs that show how they were called."""
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_text('#!/bin/bash\necho "$0 $*"\n')
        (folder / name).chmod(0o755)
    return folder


def test_only_processes_that_know_the_tasks_secret_are_of_its_cluster(tmp_path: Path) -> None:
    ((driver, master, worker),) = spark_on(1)
    tools = fake(tmp_path / "bin", "spark-class", "java")
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text("spark.eventLog.enabled true")
    env = {"PATH": f"{tools}:{os.environ['PATH']}", "MLCD_WORKDIR": str(tmp_path / "copy")}
    for process in (master, driver, worker):
        command = process.command.replace(AWAIT_MASTER, "").replace("python train.py", "exec spark-class driver")
        done = subprocess.run(
            ["/bin/bash", "-c", command],
            env={**process.env, **env, "SPARK_CONF_DIR": str(tmp_path / "conf"), "MLCD_TASK_SECRET": "s3cret"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert "s3cret" not in command + done.stdout
        folder = tmp_path / f"copy.spark/conf-{process.env['RANK']}"
        assert folder.stat().st_mode & 0o077 == 0
        assert (folder / "spark-defaults.conf").read_text().splitlines() == [
            "spark.eventLog.enabled true",
            "spark.authenticate true",
            "spark.authenticate.secret s3cret",
        ]


def test_a_cluster_without_a_secret_does_not_start(tmp_path: Path) -> None:
    ((_, master, _),) = spark_on(1)
    path = f"{fake(tmp_path / 'bin', 'spark-class', 'java')}:{os.environ['PATH']}"
    done = subprocess.run(
        ["/bin/bash", "-c", master.command],
        env={**master.env, "PATH": path, "MLCD_WORKDIR": str(tmp_path / "copy")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "Master" not in done.stdout
    assert "the cloud gives this task no secret" in done.stderr


def test_neither_rest_nor_pages_end_or_start_anything() -> None:
    ((driver, master, worker),) = spark_on(1)
    for process in (master, worker):
        assert "-Dspark.master.rest.enabled=false" in process.env["SPARK_DAEMON_JAVA_OPTS"]
        assert "-Dspark.master.ui.decommission.allow.mode=DENY" in process.env["SPARK_DAEMON_JAVA_OPTS"]
        assert "-Dspark.ui.killEnabled=false" in process.env["SPARK_DAEMON_JAVA_OPTS"]
    assert "-Dspark.ui.killEnabled=false" in driver.env["SPARK_SUBMIT_OPTS"]
