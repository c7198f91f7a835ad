"""The rented parameter stores of all tasks, as the cloud functions sees them: planned, billed, and found by whoever sweeps."""

from __future__ import annotations

from dataclasses import replace

from mlcd.clouds.ec2.cloud import Ec2Cloud
from mlcd.core.task import Charge, Handle, Owned, main_task
from mlcd.settings import Settings
from mlcd_functions.files import State
from mlcd_functions.rented.plan import StorePlan, ec2_settings, list_usd_per_hour, make_plan
from mlcd_functions.settings import FunctionsSettings


class RentedStores:
    """Tasks of the cloud ec2 that run for the sake of tasks on functions."""

    def __init__(self, settings: Settings, ours: FunctionsSettings) -> None:
        ec2 = ec2_settings(settings, ours)
        self._settings, self._ours = settings, ours
        self._cloud = Ec2Cloud(replace(settings, clouds=(ec2,)))
        self.start_seconds = ec2.start_seconds

    def plan(self) -> StorePlan:
        """What is rented for a task that is launched now."""
        return make_plan(self._settings, self._ours)

    @property
    def list_usd_per_hour(self) -> float:
        """What one costs, for forecasts."""
        return list_usd_per_hour(self._ours)

    def charges(self, state: State) -> list[Charge]:
        """What the stores of a task have cost so far, as the cloud ec2 counts it."""
        return [
            replace(charge, what=f"parameter store: {charge.what}")
            for name in state.stores
            for charge in self._cloud.status(name).charges
        ]

    def owned(self) -> list[Owned]:
        """Those that cost money now, whoever rented them."""
        return [owned for owned in self._cloud.owned() if owned.handle != owned.task_id]

    def stop(self, handle: Handle) -> None:
        """Give its machine back; quiet where there is none, and of any other task."""
        if main_task(handle) != handle:
            self._cloud.stop(handle)
