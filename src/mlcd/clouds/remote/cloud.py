"""A cloud whose machines are elsewhere: launches, follows and stops tasks through their couriers."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from mlcd.clouds.remote.base import Machines
from mlcd.clouds.remote.ends import without_the_gone
from mlcd.clouds.remote.files import Spec, State, TaskFiles, task_files
from mlcd.clouds.remote.keeping import unclaimed
from mlcd.clouds.tasks.files import working_folder
from mlcd.clouds.tasks.keepers import start_keeper, take_lock
from mlcd.clouds.tasks.telling import Narrator
from mlcd.core.clock import Clock, SystemClock
from mlcd.core.machines import Deployment, Offer
from mlcd.core.study import ProbeTime
from mlcd.core.task import Charge, Handle, Owned, Refusal, Task, TaskState, TaskStatus
from mlcd.errors import CloudError, MlcdError, NoCapacityError, UserError

LAUNCH_SECONDS = 3.0  # to wait for the seller's answer; after that it shows in the status
AGAIN_SECONDS = 2.0  # between two couriers of the same task
_ERRORS: dict[Refusal, type[MlcdError]] = {
    Refusal.NO_CAPACITY: NoCapacityError,
    Refusal.USER: UserError,
    Refusal.CLOUD: CloudError,
}


class RemoteCloud:
    """See mlcd.clouds.base.Cloud for what it promises. Subclasses sell: offers, prices, charges, and what they own."""

    name = "remote"
    poll_seconds = 0.5
    ending_seconds = 10.0
    start_seconds: float | None = None
    seller = ""  # "module:function" of an OpenMachines, for the courier

    def __init__(self, home: Path) -> None:
        self.clock: Clock = SystemClock()
        self.home = home.absolute() / self.name
        self._narrator = Narrator()
        self._started: dict[Handle, float] = {}  # when we last started a courier

    # ------------------------------------------------------------------------------- what a subclass brings

    def offers(self) -> Sequence[Offer]:
        """What is for sale now."""
        raise NotImplementedError

    def expected_probe(self, measuring_seconds: float) -> ProbeTime:
        """How long a probe takes here in all."""
        raise NotImplementedError

    def owned(self) -> Iterable[Owned]:
        """All that still costs money, by the seller's books."""
        raise NotImplementedError

    def charges(self, spec: Spec, state: State, now: float) -> tuple[Charge, ...]:
        """The bill so far."""
        raise NotImplementedError

    def machines(self) -> Machines:
        """The seller, for what is to be ended without a courier."""
        raise NotImplementedError

    def options(self, deployment: Deployment) -> dict[str, Any]:
        """What the seller needs to know in the courier's process; no secrets."""
        raise NotImplementedError

    def refuse(self, deployment: Deployment) -> None:
        """Raise where it is plain before asking that the deployment cannot be had."""

    # ------------------------------------------------------------------------------------- what all share

    def launch(self, task: Task, deployment: Deployment, secrets: Mapping[str, str]) -> Handle:
        """Start a courier for the task, unless it ever had one, and hear what the seller says at first."""
        files, began = task_files(self.home, task.id), time.monotonic()
        if files.read_state() is None:
            self.refuse(deployment)
        try:
            files.root.mkdir(parents=True, exist_ok=True)
            working_folder(task, files).root.mkdir(parents=True, exist_ok=True)
            if files.read_spec() is None:
                files.write_secrets(secrets)
                files.write_spec(self._spec(task, deployment))
            self._look_after(files)
        except OSError as error:
            raise CloudError(f"Task {task.id} cannot be started: {error}", "Is the disk full?") from error
        self._raise_refusal(files, began + LAUNCH_SECONDS)
        return task.id

    def status(self, handle: Handle) -> TaskStatus:
        """What the courier wrote last; one that was killed is replaced."""
        files = task_files(self.home, handle)
        spec = self._narrator.asked(files)
        if spec is None:
            return TaskStatus(TaskState.LOST, reason="nothing is known of it on this computer")
        state = files.read_state()
        if state is None or not state.state.ended:
            self._look_after(files)
        return self._tell(files, spec, state) if state is not None else TaskStatus(TaskState.STARTING)

    def stop(self, handle: Handle) -> None:
        """Ask the courier to end it; what was started from another computer is given back to the seller."""
        files = task_files(self.home, handle)
        spec = files.read_spec()
        if spec is None:
            machines = self.machines()
            machines.release(machines.find(handle))
            return
        state = files.read_state()
        if state is not None and state.state.ended:
            self._release_rest(handle, spec.task.job_id, state)
            return
        with suppress(OSError):
            files.stop.touch()
        self._look_after(files)

    def close(self) -> None:
        """Nothing to let go of; what runs goes on."""

    def starting(self) -> list[Owned]:
        """Tasks whose couriers are at work and have rented nothing yet: they will cost money in a moment."""
        folders = sorted((self.home / "tasks").iterdir()) if (self.home / "tasks").is_dir() else []
        found = []
        for files in map(TaskFiles, folders):
            state, spec = files.read_state(), files.read_spec()
            waits = state is None or not (state.machines or state.state.ended)
            if spec is not None and waits and files.locked():
                task, what = spec.task, str(spec.deployment)
                found.append(Owned(task.id, task.id, task.job_id, what, spec.launched_at, spec.deployment))
        return found

    def kept_until(self, handle: Handle, machines: set[str]) -> float | None:
        """Until when these machines of a task wait for the next one of its job; None: not all of them do."""
        state = task_files(self.home, handle).read_state()
        return state.kept_until if state is not None and machines <= set(state.kept) else None

    def _spec(self, task: Task, deployment: Deployment) -> Spec:
        options = {**self.options(deployment), "grace_seconds": task.grace_seconds}
        return Spec(task, deployment, str(self.home), self.seller, options, self.clock.now())

    def _look_after(self, files: TaskFiles) -> None:
        """See to it that the task has a courier."""
        now = time.monotonic()
        if now - self._started.get(files.id, -AGAIN_SECONDS) < AGAIN_SECONDS or not files.root.is_dir():
            return
        lock = take_lock(files)
        if lock is None:
            return
        state = files.read_state()
        if state is not None and state.state.ended:
            os.close(lock)
            return
        self._started[files.id] = now
        start_keeper("mlcd.clouds.remote.courier", files, lock)

    def _raise_refusal(self, files: TaskFiles, give_up_at: float) -> None:
        """Wait a little for the seller's answer, and raise it where it is no, and nothing is to be paid."""
        state = files.read_state()
        while (state is None or not (state.machines or state.state.ended)) and time.monotonic() < give_up_at:
            time.sleep(0.05)
            state = files.read_state()
        if state is not None and state.state.ended and state.refused and state.started_at is None:
            raise _ERRORS[Refusal(state.refused)](state.reason.removeprefix("no capacity: "), state.hint)

    def _release_rest(self, handle: Handle, job_id: str, state: State) -> None:
        """What is left of a task that is over: machines that wait for the next one, or that could not be given back."""
        machines = self.machines()
        left = machines.find(handle)
        waiting = [machine for machine in left if machine.id in state.kept]
        others = [machine for machine in left if machine.id not in state.kept]
        machines.release([*others, *unclaimed(self.home, job_id, waiting, handle)])

    def _tell(self, files: TaskFiles, spec: Spec, state: State) -> TaskStatus:
        billed, now = state, state.ended_at
        if now is None:
            billed, now = without_the_gone(state, self.clock.now(), spec.task.grace_seconds)
        charges = self.charges(spec, billed, now) if state.started_at is not None else ()
        folder = working_folder(spec.task, files)
        status = self._narrator.tell(spec, folder, state, charges, state.clock_ahead)
        refused = Refusal(state.refused) if state.refused and state.state.ended else None
        return replace(status, refused=refused, hint=state.hint, warning=state.warning)
