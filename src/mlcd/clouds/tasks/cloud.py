"""A cloud whose tasks have runners: launches, follows and stops them, from any process, by the folders that they leave."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import Any, ClassVar, Generic

from mlcd.clouds.tasks.files import Files, SpecKind, StateKind, working_folder
from mlcd.clouds.tasks.launch import ensure_runner
from mlcd.clouds.tasks.processes import alive
from mlcd.clouds.tasks.status import StatusReader
from mlcd.core.clock import Clock, SystemClock
from mlcd.core.machines import Deployment, Offer
from mlcd.core.study import ProbeTime
from mlcd.core.task import Charge, EndCause, Handle, Owned, Task, TaskState, TaskStatus, main_task
from mlcd.errors import CloudError, NoCapacityError
from mlcd.platforms.environment import TASK_SECRET

AGAIN_SECONDS = 2.0  # between two runners of the same task


class RunnerCloud(Generic[SpecKind, StateKind]):
    """See mlcd.clouds.base.Cloud for what it promises, and the subclasses for what is for sale."""

    name = ""
    poll_seconds = 0.5
    ending_seconds = 0.0
    start_seconds: float | None = None  # None: that depends on the program alone
    life = ""  # "module:class" of the TaskLife, for the runner
    files_kind: ClassVar[type[Any]]
    runs_again = True  # a runner that was killed is replaced, and the task goes on

    def __init__(self, home: Path, clock: Clock | None = None) -> None:
        self.clock: Clock = clock or SystemClock()
        self.home = home.absolute() / self.name
        self._status_reader = StatusReader()
        self._started: dict[Handle, float] = {}  # when we last started a runner

    # ------------------------------------------------------------------------------- what a subclass brings

    def offers(self) -> Sequence[Offer]:
        """What is for sale now."""
        raise NotImplementedError

    def expected_probe(self, measuring_seconds: float) -> ProbeTime:
        """How long a probe takes here in all."""
        raise NotImplementedError

    def owned(self) -> Iterable[Owned]:
        """All that still costs money."""
        raise NotImplementedError

    def make_spec(self, task: Task, deployment: Deployment) -> SpecKind:
        """What the runner is told, but for the secrets."""
        raise NotImplementedError

    def refuse(self, deployment: Deployment) -> None:
        """Raise where it is plain before asking that the deployment cannot be had: it has more nodes than the offer."""
        beyond = deployment.too_large
        if beyond is not None:
            most = beyond.offer.max_nodes
            raise NoCapacityError(
                f"{deployment} is more than the cloud '{self.name}' has: {most} nodes.", "Use fewer nodes."
            )

    def prepare(
        self, files: Files[SpecKind, StateKind], task: Task, deployment: Deployment, secrets: Mapping[str, str]
    ) -> None:
        """Write down what the runner needs beside its spec, before a task is launched for the first time."""

    def charges(self, spec: SpecKind, state: StateKind, now: float) -> tuple[Charge, ...]:
        """The bill so far, or to the end; a line for each type unless a subclass knows better: all nodes, by the second."""
        deployment = spec.deployment
        seconds = max(0.0, now - (state.started_at if state.started_at is not None else now))
        if deployment.server_offer is None:
            return (Charge(deployment.machines, seconds, deployment.usd(seconds)),)
        hours = seconds / 3600.0
        return tuple(Charge(str(group), seconds, group.usd_per_hour * hours) for group in deployment.groups)

    # ------------------------------------------------------------------------------------- what all share

    def launch(self, task: Task, deployment: Deployment, secrets: Mapping[str, str]) -> Handle:
        """Start a runner for the task, unless it ever had one that saw it to its end."""
        files = self.files_of(task.id)
        secrets = {**secrets, TASK_SECRET: token_hex(16)}

        def prepare() -> None:
            if files.read_spec() is None:
                working_folder(task, files).root.mkdir(parents=True, exist_ok=True)
                self.prepare(files, task, deployment, secrets)
                files.write_spec(self.make_spec(task, deployment))

        if files.read_state() is None:
            self.refuse(deployment)
        try:
            files.root.mkdir(parents=True, exist_ok=True)
            self._ensure_runner(files, {} if self.runs_again else secrets, prepare)
        except OSError as error:
            raise CloudError(f"Task {task.id} cannot be started: {error}", "Is the disk full?") from error
        return task.id

    def status(self, handle: Handle) -> TaskStatus:
        """What the runner wrote last; one that was killed is replaced, or its task is LOST."""
        files = self.files_of(handle)
        spec = self._status_reader.spec_of(files)
        if spec is None and files.locked():
            return TaskStatus(TaskState.STARTING)
        if spec is None:
            unknown = "nothing is known of it on this computer"
            return TaskStatus(TaskState.LOST, reason=unknown, cause=EndCause.RUNNER_LOST)
        state = self._current(files)
        return self._without_state(files) if state is None else self._status_of(files, spec, state)

    def stop(self, handle: Handle) -> None:
        """Ask the runner to end it; where it is gone, another does, or what is left is ended."""
        files = self.files_of(handle)
        spec, state = files.read_spec(), files.read_state()
        if spec is None:
            self._stop_unknown(handle)
        elif state is not None and state.state.ended:
            self._stop_ended(handle, spec, state)
        else:
            with suppress(OSError):  # a full disk: the signal says the same
                files.stop.touch()
            if state is not None and alive(state.pid, state.birth):
                with suppress(ProcessLookupError):
                    os.kill(state.pid, signal.SIGTERM)
            self._current(files)

    def close(self) -> None:
        """Nothing to let go of; what runs goes on."""

    def files_of(self, task_id: str) -> Files[SpecKind, StateKind]:
        """The task's files, whether or not there are any."""
        files: Files[SpecKind, StateKind] = self.files_kind.of(self.home, task_id)
        return files

    def all_files(self) -> list[Files[SpecKind, StateKind]]:
        """Of every task that was ever launched here."""
        tasks = self.home / "tasks"
        return [self.files_kind(folder) for folder in sorted(tasks.iterdir())] if tasks.is_dir() else []

    def _current(self, files: Files[SpecKind, StateKind]) -> StateKind | None:
        """The state, once the task has a runner or has ended."""
        state, since = files.read_state(), time.monotonic() - self._started.get(files.id, -AGAIN_SECONDS)
        if (state is None or not state.state.ended) and since >= AGAIN_SECONDS and files.root.is_dir():
            self._ensure_runner(files, {})
            state = files.read_state() or state
        return state

    def _without_state(self, files: Files[SpecKind, StateKind]) -> TaskStatus:
        """The status of a task whose runner has written nothing yet."""
        return TaskStatus(TaskState.STARTING)

    def _ensure_runner(
        self,
        files: Files[SpecKind, StateKind],
        secrets: Mapping[str, str],
        prepare: Callable[[], None] = lambda: None,
    ) -> None:
        if ensure_runner(self.life, files, secrets, self.runs_again, prepare):
            self._started[files.id] = time.monotonic()

    def _status_of(self, files: Files[SpecKind, StateKind], spec: SpecKind, state: StateKind) -> TaskStatus:
        charges = self.charges(spec, *self._billed(spec, state)) if state.started_at is not None else ()
        return self._status_reader.read(spec, working_folder(spec.task, files), state, charges)

    def _billed(self, spec: SpecKind, state: StateKind) -> tuple[StateKind, float]:
        """What the bill is made of, and up to when."""
        return state, state.ended_at if state.ended_at is not None else self.clock.now()

    def _stop_unknown(self, handle: Handle) -> None:
        """End what a task has that left nothing here."""

    def _stop_ended(self, handle: Handle, spec: SpecKind, state: StateKind) -> None:
        """End what is left of a task that is over."""

    def owned_task(self, files: Files[SpecKind, StateKind]) -> Owned | None:
        """A task that has not ended, as something that costs money; None: nothing is known of it."""
        spec, state = self._status_reader.spec_of(files), files.read_state()
        if spec is None:
            return None
        since = state.started_at if state is not None and state.started_at is not None else spec.launched_at
        return Owned(files.id, main_task(spec.task.id), spec.task.job_id, str(spec.deployment), since, spec.deployment)
