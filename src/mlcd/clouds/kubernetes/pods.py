"""How the pods of a Job stand, and what keeps them from starting. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mlcd.clouds.kubernetes.errors import in_words
from mlcd.errors import CloudError, MlcdError, NoCapacityError, UserError

INDEX = "batch.kubernetes.io/job-completion-index"
LEASE_OVER = "its lease ran out: nobody had heard of it for too long"
_DELETED = "it is being deleted"
_ENDED = ("Succeeded", "Failed")
_IMAGE = "Look at the settings kubernetes.image and kubernetes.python; the image needs bash, tar and Python."
# A container that waits for one of these reasons never starts,
_HOPELESS = {"InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError"}
# and so does one that gives such a cause; of others (a registry that is away) Kubernetes tries again.
_HOPELESS_CAUSE = re.compile(
    r"not found|no such file|does not exist|denied|[Uu]nauthorized|authentication required|manifest unknown"
    r"|name unknown|invalid reference|no match for platform|runAsNonRoot|InvalidImageName"
)
_CANNOT_START = {"StartError", "ContainerCannotRun"}
_NO_COMMAND_CODES = (126, 127, 128)


@dataclass(frozen=True)
class Pod:
    """One pod, as far as it concerns us."""

    name: str
    index: int
    phase: str
    ip: str
    leaving: bool  # it is being deleted, by us, by a drain or by its Job
    started_at: float | None  # when it began to hold a node
    ended_at: float | None
    why: str  # the reason of its state: ErrImagePull, Unschedulable, StartError, Evicted …
    message: str
    exit_code: int | None

    @property
    def runs(self) -> bool:
        """Whether commands can be run in it."""
        return self.phase == "Running" and bool(self.ip) and self.ended_at is None and not self.leaving

    @property
    def over(self) -> bool:
        """Whether it is no more, or will soon be."""
        return self.ended or self.leaving

    @property
    def ended(self) -> bool:
        """Whether it is no more, and holds nothing."""
        return self.phase in _ENDED or self.ended_at is not None


def read_pod(item: Mapping[str, Any]) -> Pod:
    """From what `kubectl get pods` lists."""
    metadata, status = item["metadata"], item.get("status", {})
    state: dict[str, Any] = next((each.get("state", {}) for each in status.get("containerStatuses", [])), {})
    ended = state.get("terminated", {})
    told = _told(status, ended, state.get("waiting", {}))
    return Pod(
        name=metadata["name"],
        index=int(metadata.get("annotations", {}).get(INDEX, "0")),
        phase=status.get("phase", ""),
        ip=status.get("podIP", ""),
        leaving="deletionTimestamp" in metadata,
        started_at=_moment(status.get("startTime")),
        ended_at=_moment(ended.get("finishedAt")),
        why=str(told.get("reason", "")),
        message=str(told.get("message", "")),
        exit_code=ended.get("exitCode"),
    )


def why_over(pod: Pod) -> str:
    """Why a pod is no more, in plain words; empty: nobody says."""
    if pod.exit_code == 0 and pod.why in ("", "Completed"):  # it left by itself
        return _DELETED if pod.leaving else LEASE_OVER
    code = f"exit code {pod.exit_code}" if pod.exit_code is not None else ""
    words = [part for part in (pod.why, pod.message, code) if part]
    return ": ".join(words[:2]) if words else (_DELETED if pod.leaving else "")


def why_not_started(pods: Sequence[Pod], creating: Sequence[str]) -> str:
    """What keeps the pods from starting, as far as anybody says; `creating`: what the Job's events say."""
    told = [f"{pod.why}: {pod.message}".rstrip(": ") for pod in pods if not pod.runs and pod.why]
    return next(iter((*creating, *told)), "no pod says why")


def hopeless(pods: Sequence[Pod], creating: Sequence[str]) -> MlcdError | None:
    """Why some pod will never start; None: waiting may help."""
    refusals = [in_words("make its pods", said) for said in creating]
    for refusal in refusals:
        if isinstance(refusal, UserError | NoCapacityError):
            return refusal
    errors = [error for pod in pods if (error := _never_starts(pod)) is not None]
    # Where one cannot start, Kubernetes ends the others: the cause is told, not what came of it.
    return next((error for error in errors if isinstance(error, UserError)), errors[0] if errors else None)


def _never_starts(pod: Pod) -> MlcdError | None:
    if pod.over:
        return _ended_early(pod)
    if pod.why in _HOPELESS or (pod.phase == "Pending" and _is_hopeless(pod)):
        return UserError(f"Pod {pod.name} cannot start: {pod.why}: {pod.message}", _IMAGE)
    return None


def _ended_early(pod: Pod) -> MlcdError:
    why = why_over(pod) or "nobody says why"
    if pod.why in _CANNOT_START or pod.exit_code in _NO_COMMAND_CODES:
        return UserError(f"Pod {pod.name} cannot start: {why}", _IMAGE)
    return CloudError(f"Pod {pod.name} ended before the program could start: {why}.")


def _is_hopeless(pod: Pod) -> bool:
    scheduled = pod.started_at is not None  # what the scheduler says may change with the next node
    return scheduled and bool(_HOPELESS_CAUSE.search(pod.message))


def _told(status: Mapping[str, Any], *of_container: Mapping[str, Any]) -> Mapping[str, Any]:
    """Who says most of why the pod stands as it does: reason and message."""
    conditions = status.get("conditions", [])
    evicted = [each for each in conditions if each["type"] == "DisruptionTarget" and each["status"] == "True"]
    blocked = [each for each in conditions if each["type"] == "PodScheduled" and each["status"] == "False"]
    return next((each for each in (status, *evicted, *of_container, *blocked) if each.get("reason")), {})


def _moment(text: str | None) -> float | None:
    return None if not text else datetime.fromisoformat(text).timestamp()
