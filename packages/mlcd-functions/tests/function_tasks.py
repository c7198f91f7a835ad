"""Small tasks on functions, and waiting for them."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from mlcd.clouds.tasks.processes import birth, marked_tasks
from mlcd.core.machines import Deployment
from mlcd.core.task import Handle, Task, TaskFolder, TaskKind, TaskState, TaskStatus
from mlcd.settings import Settings
from mlcd_functions.cloud import FunctionsCloud
from mlcd_functions.files import State, TaskFiles
from mlcd_functions.settings import FunctionsSettings

PATIENCE_SECONDS = 300.0


def settings(home: Path, **changes: Any) -> Settings:
    """Settings that make functions quick to report."""
    quick: dict[str, Any] = {"tick_seconds": 0.15, "idle_seconds": 20.0, "store_memory_mb": 64}
    return Settings(home=home, clouds=(FunctionsSettings(**{**quick, **changes}),))


class Field:
    """The functions cloud with its home in a folder of the test."""

    def __init__(self, home: Path, **changes: Any) -> None:
        self.home = home
        self.cloud = FunctionsCloud(settings(home, **changes))

    def task(self, run: str, **changes: Any) -> Task:
        """A task with a folder of its own."""
        folder = self.home / "jobs" / "task-1"
        folder.mkdir(parents=True)
        task = Task(
            id="task-1",
            job_id="job",
            kind=TaskKind.TRAINING,
            platform="command",
            run=run,
            folder=str(folder),
            checkpoints=str(folder / "kept"),
            grace_seconds=2.0,
        )
        return replace(task, **changes)

    def deployment(self, nodes: int = 1, memory_mb: int = 3538) -> Deployment:
        """So many functions of that size."""
        name = f"fn-{memory_mb}mb"
        offer = next(offer for offer in self.cloud.offers() if offer.instance.name == name)
        return Deployment(offer, nodes, batch_size=None)

    def launch(self, task: Task, nodes: int = 1, memory_mb: int = 3538, **secrets: str) -> Handle:
        """Launch it on so many functions."""
        return self.cloud.launch(task, self.deployment(nodes, memory_mb), secrets)

    def run(self, task: Task, nodes: int = 1, memory_mb: int = 3538, **secrets: str) -> TaskStatus:
        """Launch it and wait for its end."""
        return self.wait(self.launch(task, nodes, memory_mb, **secrets))

    def wait(
        self, handle: Handle, condition: Callable[[TaskStatus], bool] = lambda status: status.state.ended
    ) -> TaskStatus:
        """The first status that fits."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not condition(status := self.cloud.status(handle)):
            assert time.monotonic() < deadline, f"it did not come in time: {status}\n{self.state(handle)}"
            assert not status.state.ended, f"it has ended: {status}"
            time.sleep(0.05)
        return status

    def wait_until_running(self, handle: Handle) -> TaskStatus:
        """Until its program has begun."""
        return self.wait(handle, lambda status: status.state is TaskState.RUNNING)

    def state(self, handle: Handle) -> State:
        """What its runner wrote."""
        state = TaskFiles.of(self.cloud.home, handle).read_state()
        assert state is not None
        return state

    def environments(self) -> set[Path]:
        """The folders of the functions that live."""
        return marked_tasks(self.home / "functions" / "service" / "environments")

    def end_everything(self) -> None:
        """Stop all that still runs, wait for it, and end the service."""
        handles = [owned.handle for owned in self.cloud.owned()]
        for handle in handles:
            self.cloud.stop(handle)
        for handle in handles:
            self.wait(handle)
        end_service(self.home)


def end_service(home: Path) -> None:
    """End the service of a home and wait until nothing is left of it."""
    try:
        pid = int(json.loads((home / "functions" / "service" / "service.json").read_text())["pid"])
    except FileNotFoundError:
        return
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while birth(pid) or marked_tasks(home / "functions" / "service" / "environments"):
        assert time.monotonic() < deadline, "the service lives on"
        time.sleep(0.02)


def log_of(task: Task, node: int = 0) -> str:
    """What a function's program printed."""
    return TaskFolder(Path(task.folder)).log(node).read_text()
