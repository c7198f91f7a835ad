"""What a Job's events say of pods that could not be made, and whether that will last."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlcd.clouds.kubernetes.errors import is_full
from mlcd.clouds.kubernetes.kubectl import Kubectl
from mlcd.clouds.kubernetes.manifests import MANAGED
from mlcd.clouds.kubernetes.pods import read_pod
from mlcd.errors import MlcdError

GRACE_SECONDS = 2.0  # for a quota to be counted anew once pods of ours are gone


@dataclass(frozen=True)
class Refused:
    """One event: a pod could not be made. Kubernetes counts up what it has said before."""

    name: str
    times: int
    message: str


@dataclass(frozen=True)
class CreationMessages:
    """What was said of pods that could not be made."""

    messages: Sequence[str] = ()
    lasting: Sequence[str] = ()  # without what may pass: a quota that is full for a moment


class Creations:
    """Asks for the events of one Job, again and again."""

    def __init__(self, kubectl: Kubectl) -> None:
        self._kubectl = kubectl
        self._quota = Quota()

    def tell(self, job: str) -> CreationMessages:
        """What was said so far of its pods; nothing where events may not be read."""
        refused = self._refused(job)
        full = any(is_full(each.message) for each in refused)
        lasts = self._quota.lasts(refused, full and self._pods_leave())
        messages = [each.message for each in refused]
        return CreationMessages(messages, [message for message in messages if lasts or not is_full(message)])

    def _refused(self, job: str) -> Sequence[Refused]:
        only = f"involvedObject.kind=Job,involvedObject.name={job},reason=FailedCreate"
        try:
            events = self._kubectl.items("list events", "events", "--field-selector", only)
        except MlcdError:
            return []
        return [_read(event) for event in events]

    def _pods_leave(self) -> bool:
        """Whether pods of ours, of whatever task, are going: what they hold is free soon."""
        label = ",".join(f"{name}={value}" for name, value in MANAGED.items())
        try:
            pods = [read_pod(each) for each in self._kubectl.items("list pods", "pods", "--selector", label)]
        except MlcdError:  # nobody knows: it is asked again
            return True
        return any(pod.leaving and not pod.ended for pod in pods)


class Quota:
    """Tells a quota that is full from one that is full for a moment, as pods of an earlier task are still going.

    It is full once Kubernetes says so again, after no pod of ours was going any more and the quota was counted anew.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._settled_at: float | None = None  # when none was going any more
        self._said: set[Refused] | None = None  # what had been said when the grace was over

    def lasts(self, refused: Sequence[Refused], leaving: bool) -> bool:
        """Whether to wait no longer."""
        said = {each for each in refused if is_full(each.message)}
        if leaving or not said:
            self._settled_at = self._said = None
            return False
        self._settled_at = self._clock() if self._settled_at is None else self._settled_at
        if self._clock() - self._settled_at < GRACE_SECONDS:
            return False
        self._said = said if self._said is None else self._said
        return not said <= self._said


def _read(event: Mapping[str, Any]) -> Refused:
    series = event.get("series") or {}
    times = int(series.get("count") or event.get("count") or 1)
    return Refused(str(event["metadata"]["name"]), times, str(event.get("message", "")))
