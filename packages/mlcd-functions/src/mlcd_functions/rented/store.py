"""The parameter store of one task on a machine of EC2, as the task's runner sees it.

The state names every store of the task before it is launched, and launching the same name twice rents once: whoever takes over
from a runner that was killed finds the store by it. The store's own runner renews the machine's lease meanwhile.
"""

from __future__ import annotations

import time
from contextlib import suppress

from mlcd.clouds.ec2.cloud import Ec2Cloud
from mlcd.clouds.tasks.outcome import refusal
from mlcd.clouds.tasks.watch import Watch
from mlcd.core.task import Task, TaskStatus, beside
from mlcd.errors import CloudError, MlcdError
from mlcd.settings import Settings
from mlcd_functions.files import PLAN, TaskFiles
from mlcd_functions.record import Record
from mlcd_functions.rented.plan import PASSWORD, PORT, StorePlan, store_task
from mlcd_functions.settings import FunctionsSettings

LOOK_SECONDS = 1.0  # between two looks at it
END_SECONDS = 60.0  # to wait until it is given back, so that the bill is whole; its own runner goes on after that
_NAME = "store-"


class RentedStore:
    """See mlcd_functions.stores.ParameterStore."""

    def __init__(self, settings: FunctionsSettings, files: TaskFiles, task: Task, record: Record, watch: Watch) -> None:
        self._plan = files.read(StorePlan, PLAN)  # gone once the task is over, but for the last words
        sections = () if self._plan is None else (self._plan.ec2,)
        self._home = files.root.parents[1]
        self._cloud = Ec2Cloud(Settings(home=self._home.parent, clouds=sections))
        self._settings, self._task = settings, task
        self._record, self._watch = record, watch
        self._looked_at = -LOOK_SECONDS
        self._lives = True
        self.anew = False

    @property
    def url(self) -> str:
        """By the machine's private address."""
        state = self._cloud.files_of(self._name).read_state() if self._name else None
        if state is None or self._plan is None:
            return ""
        return ",".join(f"redis://:{self._plan.password}@{machine.address}:{PORT}" for machine in state.machines)

    def start(self) -> None:
        """Wait until it answers; it is rented where there is none, or the last one is gone."""
        if not self._name or self._status().state.ended:
            self._rent()
        while (status := self._status()).progress.steps < 1:
            if status.state.ended:
                raise not_started(status)
            self._note_cost(status)
            self._watch.wait(LOOK_SECONDS)
        self._note_cost(status)
        self._lives = True

    def alive(self) -> bool:
        """Whether it serves; looked at once a second."""
        now = time.monotonic()
        if now - self._looked_at >= LOOK_SECONDS and self._name:
            self._looked_at = now
            with suppress(MlcdError):  # what is not known is not lost
                self._lives = not self._status().state.ended
        return self._lives

    def revive(self) -> None:
        """Rent another one where the last is gone."""
        if not self._name or self._status().state.ended:
            self.start()

    def stop(self) -> None:
        """Give the machine back, and wait a little until that is done."""
        give_up_at = time.monotonic() + END_SECONDS
        with suppress(MlcdError):  # its own runner, its lease and its limit end it all the same
            if self._name and not self._status().state.ended:
                self._cloud.stop(self._name)
            while self._name and not self._status().state.ended and time.monotonic() < give_up_at:
                self._watch.pause(LOOK_SECONDS / 4)

    @property
    def _name(self) -> str:
        """Of the newest; empty: there was none."""
        return next(reversed(self._record.state.stores), "")

    def _status(self) -> TaskStatus:
        """Of the newest; where its runner was killed, another one takes over."""
        return self._cloud.status(self._name)

    def _rent(self) -> None:
        if self._plan is None:
            raise CloudError(f"The plan of the parameter store of {self._task.id} is gone.")
        state = self._record.state
        left = state.seconds_left(self._task.max_seconds)
        if not self._name or self._cloud.files_of(self._name).read_spec() is not None:
            self._record.change(stores=(*state.stores, beside(self._task.id, f"{_NAME}{len(state.stores) + 1}")))
        task = store_task(self._task, self._name, self._plan, self._settings, self._home, left)
        self.anew = state.generation > 0
        self._cloud.launch(task, self._plan.deployment, {PASSWORD: self._plan.password})

    def _note_cost(self, status: TaskStatus) -> None:
        """The task begins to cost money, and its time to run, with the first machine."""
        if status.started_at is None:
            return
        if self._record.state.store_at is None:
            self._record.change(store_at=status.started_at, started_at=status.started_at)
        self._watch.limit(self._record.state.seconds_left(self._task.max_seconds))


def not_started(status: TaskStatus) -> MlcdError:
    """Why a store did not come to serve, as the cloud said it."""
    reason = f"The parameter store could not be had: {status.reason}"
    return CloudError(reason, status.hint) if status.refused is None else refusal(status.refused, reason, status.hint)
