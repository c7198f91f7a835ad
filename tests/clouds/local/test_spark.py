"""Spark's own cluster on nodes of this computer: it trains, survives an executor, and leaves nothing behind."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from subprocess import PIPE, STDOUT

import pytest

from clouds.local.tools import Computer, log_of
from mlcd.core.task import EndCause, Task, TaskFolder, TaskState

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "digits_spark"
EPOCH = 2 * 1437  # samples of the example with two copies of each image
PASSES = 15
PATIENCE_SECONDS = 540.0  # a cluster is six Java processes

pytestmark = pytest.mark.slow


@pytest.fixture
def computer(tmp_path: Path) -> Iterator[Computer]:
    if importlib.util.find_spec("pyspark") is None:
        pytest.skip("pyspark is not installed")
    if shutil.which("java") is None:
        pytest.skip("there is no Java runtime")
    computer = Computer(tmp_path / "home")
    yield computer
    computer.end_everything()


def run(computer: Computer, task: Task) -> TaskState:
    handle = computer.launch(task, nodes=2, memory_gib=4.0)
    return computer.wait(handle, seconds=PATIENCE_SECONDS).state


def test_it_trains_on_two_nodes_and_its_passes_are_counted(computer: Computer) -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    task = computer.task(
        "spark-submit train.py",
        platform="spark",
        workdir=str(EXAMPLE),
        envs={"COPIES": "2"},
        samples=float(PASSES * EPOCH),
        samples_per_epoch=float(EPOCH),
    )
    state = run(computer, task)
    assert state is TaskState.SUCCEEDED, log_of(task)
    progress = computer.cloud.status(task.id).progress
    assert progress.samples % EPOCH == 0, "passes, and no part of one"
    assert PASSES * EPOCH <= progress.samples <= 2 * PASSES * EPOCH
    assert {point.name for point in progress.metrics} == {"loss", "test_accuracy"}
    outputs = TaskFolder(Path(task.folder)).outputs
    assert json.loads((outputs / "metrics.json").read_text())["test_accuracy"] >= 0.9
    assert {path.name for path in outputs.iterdir()} == {"metrics.json", "model.npz", "predict.py"}
    for node in range(2):
        assert "Asked to launch executor" in log_of(task, node)
    assert computer.processes(task.id) == []
    assert not list(Path(task.folder).rglob("*.spark"))


CRASHES_ONCE = """
import os
from pathlib import Path

from pyspark.sql import SparkSession

import helper

MARKER = Path(os.environ["MLCD_OUTPUT_DIR"], "crashed")


def double(rows):
    if not MARKER.exists():
        MARKER.touch()
        daemon = os.getppid()
        executor = int(Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(executor, 9)
    return [helper.doubled(row) for row in rows]


spark = SparkSession.builder.getOrCreate()
numbers = spark.sparkContext.parallelize(range(100), 4)
print("sum", numbers.mapPartitions(double).sum())
spark.stop()
"""


def test_spark_replaces_an_executor_that_crashed(computer: Computer, tmp_path: Path) -> None:
    workdir = tmp_path / "code"
    workdir.mkdir()
    (workdir / "train.py").write_text(textwrap.dedent(CRASHES_ONCE))
    (workdir / "helper.py").write_text("def doubled(number): return 2 * number\n")
    task = computer.task("python train.py", platform="spark", workdir=str(workdir))
    state = run(computer, task)
    assert state is TaskState.SUCCEEDED, log_of(task)
    assert (TaskFolder(Path(task.folder)).outputs / "crashed").exists()
    assert "sum 9900" in log_of(task)
    assert computer.processes(task.id) == []


STRANGER = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.master(sys.argv[1]).getOrCreate()
print("sum", spark.sparkContext.parallelize(range(100), 4).sum())
"""


def test_a_strangers_program_does_not_run_on_the_cluster(computer: Computer, tmp_path: Path) -> None:
    (tmp_path / "stranger.py").write_text(STRANGER)
    (tmp_path / "train.py").write_text('import os, time\nprint("at", os.environ["MASTER"])\ntime.sleep(600)\n')
    task = computer.task("python train.py", platform="spark", workdir=str(tmp_path))
    handle = computer.launch(task, memory_gib=4.0)
    computer.wait(
        handle, lambda _: "Successfully registered with master" in seen_in_log(task, 0), seconds=PATIENCE_SECONDS
    )
    computer.wait(handle, lambda _: "at spark://" in seen_in_log(task, 0), seconds=PATIENCE_SECONDS)
    master = re.findall(r"at (spark://\S+)", log_of(task))[0]
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    with subprocess.Popen(
        [sys.executable, str(tmp_path / "stranger.py"), master], env=environment, stdout=PIPE, stderr=STDOUT, text=True
    ) as stranger:
        assert stranger.stdout is not None
        told = list(until(stranger.stdout, "SaslException|IllegalArgumentException|Unable to connect|sum "))
        stranger.kill()
    assert "sum 4950" not in "".join(told)
    assert "Registered app" not in log_of(task)
    assert computer.cloud.status(handle).state is TaskState.RUNNING


def until(lines: Iterable[str], pattern: str) -> Iterator[str]:
    """The lines up to the first that has the pattern."""
    for line in lines:
        yield line
        if re.search(pattern, line):
            return


def test_a_worker_that_is_lost_ends_the_task_and_all_that_it_started(computer: Computer, tmp_path: Path) -> None:
    task = computer.task("sleep 600", platform="spark", workdir=str(tmp_path))
    handle = computer.launch(task, nodes=2, memory_gib=4.0)
    registered = "Successfully registered with master"
    computer.wait(handle, lambda _: registered in seen_in_log(task, 1), seconds=PATIENCE_SECONDS)
    workers = [pid for pid in computer.processes(handle) if b"deploy.worker.Worker" in command_of(pid)]
    os.kill(workers[0], signal.SIGKILL)
    status = computer.wait(handle, seconds=PATIENCE_SECONDS)
    assert (status.state, status.cause) == (
        TaskState.LOST,
        EndCause.NODE_LOST,
    )  # as by the kernel: another attempt begins
    assert computer.processes(handle) == []


def seen_in_log(task: Task, node: int) -> str:
    return log_of(task, node) if TaskFolder(Path(task.folder)).log(node).exists() else ""


def command_of(pid: int) -> bytes:
    """Empty where it has ended meanwhile."""
    file = Path(f"/proc/{pid}/cmdline")
    return file.read_bytes() if file.exists() else b""
