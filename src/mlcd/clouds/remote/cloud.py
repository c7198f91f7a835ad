"""A cloud whose machines are elsewhere: launches, follows and stops tasks through their runners."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from mlcd.clouds.remote.base import Machines
from mlcd.clouds.remote.ends import without_the_gone
from mlcd.clouds.remote.files import Spec, State, TaskFiles
from mlcd.clouds.remote.warm_pool import unclaimed
from mlcd.clouds.tasks.cloud import RunnerCloud
from mlcd.clouds.tasks.files import Files
from mlcd.clouds.tasks.outcome import raise_refusal
from mlcd.core.machines import Deployment
from mlcd.core.task import Handle, Owned, Task

LAUNCH_SECONDS = 3.0  # to wait for the provider's answer; after that it shows in the status


class RemoteCloud(RunnerCloud[Spec, State]):
    """See mlcd.clouds.base.Cloud for what it promises.

    A subclass brings: `provider`, `machines` and `options`, and of RunnerCloud `offers`, `expected_probe` and `owned`;
    where they say more than the common ones also `charges` and `refuse`.
    """

    name = "remote"
    ending_seconds = 10.0
    life = "mlcd.clouds.remote.task:RemoteTask"
    files_kind = TaskFiles
    provider = ""  # "module:function" of an OpenMachines, for the runner

    def machines(self) -> Machines:
        """The provider, for what is to be ended without a runner."""
        raise NotImplementedError

    def options(self, deployment: Deployment) -> dict[str, Any]:
        """What the provider needs to know in the runner's process; no secrets."""
        raise NotImplementedError

    def make_spec(self, task: Task, deployment: Deployment) -> Spec:
        """With who rents out the machines."""
        options = {**self.options(deployment), "grace_seconds": task.grace_seconds}
        return Spec(task, deployment, str(self.home), self.clock.now(), self.provider, options)

    def prepare(
        self, files: Files[Spec, State], task: Task, deployment: Deployment, secrets: Mapping[str, str]
    ) -> None:
        """The secrets, until they are handed to the machines."""
        files.write_secrets(secrets)

    def launch(self, task: Task, deployment: Deployment, secrets: Mapping[str, str]) -> Handle:
        """Start a runner for the task, unless it ever had one, and wait a little for what the provider says."""
        began = time.monotonic()
        handle = super().launch(task, deployment, secrets)
        self._raise_refusal(self.files_of(task.id), began + LAUNCH_SECONDS)
        return handle

    def starting(self) -> list[Owned]:
        """Tasks whose runners are at work and have rented nothing yet: they will cost money in a moment."""
        found = []
        for files in self.all_files():
            state = files.read_state()
            waits = state is None or not (state.machines or state.state.ended)
            if waits and files.locked() and (owned := self.owned_task(files)) is not None:
                found.append(owned)
        return found

    def warm_until(self, handle: Handle, machines: set[str]) -> float | None:
        """Until when these machines of a task wait for the next one of its job; None: not all of them do."""
        state = self.files_of(handle).read_state()
        return state.warm_until if state is not None and machines <= set(state.warm) else None

    def _raise_refusal(self, files: Files[Spec, State], give_up_at: float) -> None:
        """Wait a little for the provider's answer, and raise it where it is no, and nothing is to be paid."""
        state = files.read_state()
        while (state is None or not (state.machines or state.state.ended)) and time.monotonic() < give_up_at:
            time.sleep(0.05)
            state = files.read_state()
        if state is not None and state.refused is not None and state.started_at is None:
            raise_refusal(state.refused, state.reason, state.hint)

    def _stop_unknown(self, handle: Handle) -> None:
        """What was started from another computer is given back to the provider."""
        machines = self.machines()
        machines.release(machines.find(handle))

    def _stop_ended(self, handle: Handle, spec: Spec, state: State) -> None:
        """What is left of a task that is over: machines that wait for the next one, or that could not be given back."""
        machines = self.machines()
        left = machines.find(handle)
        waiting = [machine for machine in left if machine.id in state.warm]
        others = [machine for machine in left if machine.id not in state.warm]
        machines.release([*others, *unclaimed(self.home, spec.task.job_id, waiting, handle)])

    def _billed(self, spec: Spec, state: State) -> tuple[State, float]:
        if state.ended_at is not None:
            return state, state.ended_at
        return without_the_gone(state, self.clock.now(), spec.task.grace_seconds)
