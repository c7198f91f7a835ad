"""Small tasks on this computer, and waiting for them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from mlcd.clouds.local.cloud import LocalCloud
from mlcd.clouds.local.files import State, TaskFiles
from mlcd.clouds.local.settings import LocalSettings
from mlcd.clouds.tasks.processes import birth, marked
from mlcd.core.machines import Deployment, InstanceType, Offer
from mlcd.core.task import Handle, Task, TaskFolder, TaskKind, TaskState, TaskStatus
from mlcd.settings import Settings

PATIENCE_SECONDS = 120.0  # the machine may be busy; nothing waits so long when all is well


class Computer:
    """The local cloud with its home in a folder of the test."""

    def __init__(self, home: Path, cores: int = 4) -> None:
        self.home = home
        self.cloud = LocalCloud(Settings(home=home, clouds=(LocalSettings(cores=cores),)))

    def task(self, run: str, **changes: Any) -> Task:
        """A task with a folder of its own."""
        number = len(list((self.home / "jobs").glob("*"))) + 1 if (self.home / "jobs").is_dir() else 1
        folder = self.home / "jobs" / f"task-{number}"
        folder.mkdir(parents=True)
        task = Task(
            id=f"task-{number}",
            job_id="job",
            kind=TaskKind.TRAINING,
            platform="command",
            run=run,
            folder=str(folder),
            grace_seconds=1.0,
        )
        return replace(task, **changes)

    def launch(self, task: Task, nodes: int = 1, memory_gib: float = 1.0, **secrets: str) -> Handle:
        """Launch it on nodes of one core."""
        return self.cloud.launch(task, one_core(nodes, memory_gib), secrets)

    def run(self, task: Task, nodes: int = 1, **secrets: str) -> TaskStatus:
        """Launch it and wait for its end."""
        return self.wait(self.launch(task, nodes, **secrets))

    def wait(
        self,
        handle: Handle,
        condition: Callable[[TaskStatus], bool] = lambda status: status.state.ended,
        seconds: float = PATIENCE_SECONDS,
    ) -> TaskStatus:
        """The first status that fits."""
        deadline = time.monotonic() + seconds
        while not condition(status := self.cloud.status(handle)):
            assert time.monotonic() < deadline, f"did not come in time: {status}"
            time.sleep(0.02)
        return status

    def wait_until_running(self, handle: Handle) -> TaskStatus:
        """Until its program has begun."""
        return self.wait(handle, lambda status: status.state is TaskState.RUNNING)

    def wait_until_known(self, handle: Handle) -> None:
        """Until a runner has taken it over, whoever launched it."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while TaskFiles.of(self.cloud.home, handle).read_state() is None:
            assert time.monotonic() < deadline, "it was never launched"
            time.sleep(0.01)

    def end_everything(self) -> None:
        """Stop all that still runs, and wait for it."""
        handles = [owned.handle for owned in self.cloud.owned()]
        for handle in handles:
            self.cloud.stop(handle)
        for handle in handles:
            self.wait(handle)

    def state(self, handle: Handle) -> State:
        """What its runner wrote."""
        state = TaskFiles.of(self.cloud.home, handle).read_state()
        assert state is not None
        return state

    def processes(self, handle: Handle) -> list[int]:
        """All that runs of it."""
        return marked(TaskFiles.of(self.cloud.home, handle).root)


def one_core(nodes: int = 1, memory_gib: float = 1.0) -> Deployment:
    """So many nodes of one core each."""
    instance = InstanceType("local-1c", vcpus=1, memory_gib=memory_gib)
    return Deployment(Offer("local", instance, usd_per_hour=3.6, max_nodes=4), nodes)


def log_of(task: Task, node: int = 0) -> str:
    """What a node's program printed."""
    return TaskFolder(Path(task.folder)).log(node).read_text()


def wait_for_text(task: Task, text: str, node: int = 0) -> None:
    """Until the program has printed that."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    log = TaskFolder(Path(task.folder)).log(node)
    while not log.exists() or text not in log.read_text():
        assert time.monotonic() < deadline, f"'{text}' never came"
        time.sleep(0.02)


def wait_for_death(pid: int) -> None:
    """Until a process has gone, or is but a zombie."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while birth(pid):
        assert time.monotonic() < deadline, f"process {pid} lives on"
        time.sleep(0.02)
