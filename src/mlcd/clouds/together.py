"""Several clouds as one, so that one search chooses between them: `cloud: local+functions`.

Every offer keeps the name of its own cloud, and whatever is launched goes there. A handle is `<cloud>:<its own handle>`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from mlcd import registry
from mlcd.clouds.base import Cloud, Particular, Recorded
from mlcd.core.clock import Clock
from mlcd.core.job import Job
from mlcd.core.machines import Deployment, Offer
from mlcd.core.study import ProbeTime
from mlcd.core.task import EndCause, Handle, Owned, Task, TaskState, TaskStatus
from mlcd.errors import NoCapacityError, UserError
from mlcd.settings import Settings


def open_together(names: Sequence[str], settings: Settings, options: Mapping[str, str]) -> Cloud:
    """These clouds as one; they live in the same time and take no options."""
    if options:
        raise UserError(
            f"Several clouds together take no option '{next(iter(options))}'.",
            "Leave the option out, or use one cloud.",
        )
    clouds = {name: registry.load("clouds", name)(settings, {}) for name in dict.fromkeys(names)}
    for name, cloud in clouds.items():
        if isinstance(cloud, Recorded):
            raise UserError(f"The cloud '{name}' lives in a time of its own and cannot be joined with others.")
    return Together(list(clouds.values()))


class Together:
    """Sells what all of them sell. See mlcd.clouds.base.Cloud for what it promises."""

    start_seconds: float | None = None

    def __init__(self, clouds: Sequence[Cloud]) -> None:
        self._clouds = {cloud.name: cloud for cloud in clouds}
        self.name = "+".join(self._clouds)
        self.clock: Clock = clouds[0].clock
        self.poll_seconds = min(cloud.poll_seconds for cloud in clouds)
        self.ending_seconds = max(cloud.ending_seconds for cloud in clouds)

    def offers(self) -> Iterable[Offer]:
        """All of theirs."""
        return [offer for cloud in self._clouds.values() for offer in cloud.offers()]

    def expected_probe(self, measuring_seconds: float) -> ProbeTime:
        """The longest that any of them expects: rather too long than a probe that breaks the budget."""
        times = [cloud.expected_probe(measuring_seconds) for cloud in self._clouds.values()]
        return max(times, key=lambda time: time.first_seconds)

    def launch(self, task: Task, deployment: Deployment, secrets: Mapping[str, str]) -> Handle:
        """Have the offer's own cloud start it."""
        name = deployment.offer.cloud
        if name not in self._clouds:
            raise NoCapacityError(
                f"{deployment} is of the cloud '{name}', which is none of {self.name}.",
                f"Take part in its search with `cloud: {self.name}+{name}`.",
            )
        return f"{name}:{self._clouds[name].launch(task, deployment, secrets)}"

    def refuse_program(self, job: Job, deployments: Sequence[Deployment]) -> None:
        """Have each cloud look at the program for its own deployments."""
        for name, cloud in self._clouds.items():
            if isinstance(cloud, Particular):
                cloud.refuse_program(job, [one for one in deployments if one.offer.cloud == name])

    def status(self, handle: Handle) -> TaskStatus:
        """As its cloud knows it."""
        cloud, own = self._find(handle)
        if cloud is None:
            return TaskStatus(TaskState.LOST, reason=f"none of {self.name} knows of it", cause=EndCause.RUNNER_LOST)
        return cloud.status(own)

    def stop(self, handle: Handle) -> None:
        """Have its cloud end it."""
        cloud, own = self._find(handle)
        if cloud is not None:
            cloud.stop(own)

    def owned(self) -> Iterable[Owned]:
        """All of theirs."""
        return [
            replace(owned, handle=f"{name}:{owned.handle}")
            for name, cloud in self._clouds.items()
            for owned in cloud.owned()
        ]

    def close(self) -> None:
        """Let go of all of them."""
        for cloud in self._clouds.values():
            cloud.close()

    def _find(self, handle: Handle) -> tuple[Cloud | None, Handle]:
        name, _, own = handle.partition(":")
        return self._clouds.get(name), own
