"""How pods stand, and what keeps them from starting."""

from __future__ import annotations

from typing import Any

import pytest

from mlcd.clouds.kubernetes.pods import LEASE_OVER, hopeless, read_pod, why_not_started, why_over
from mlcd.errors import CloudError, NoCapacityError, UserError

STARTED, FINISHED = "2026-11-16T10:00:00Z", "2026-11-16T10:05:00Z"


def item(phase: str = "Pending", state: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    """A pod as `kubectl get pods` lists it."""
    containers = [{"name": "mlcd", "state": state}] if state else []
    labels = {"batch.kubernetes.io/job-completion-index": "1"}
    facts = {"phase": phase, "startTime": STARTED, "containerStatuses": containers, **status}
    return {"kind": "Pod", "metadata": {"name": "p", "annotations": labels}, "status": facts}


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    return item(state={"waiting": {"reason": reason, "message": message}})


def ended(code: int, **more: Any) -> dict[str, Any]:
    told = {"exitCode": code, "finishedAt": FINISHED, **more}
    return item("Failed" if code else "Succeeded", {"terminated": told})


def test_a_pod_holds_its_node_from_its_start_to_its_end() -> None:
    pod = read_pod(ended(0, reason="Completed"))
    assert pod.started_at is not None
    assert pod.ended_at is not None
    assert (pod.index, pod.over, pod.runs, pod.ended_at - pod.started_at) == (1, True, False, 300.0)
    assert why_over(pod) == LEASE_OVER


def test_a_pod_that_was_told_to_go_did_not_end_by_its_lease() -> None:
    drained = ended(0, reason="Completed")
    drained["metadata"]["deletionTimestamp"] = FINISHED
    assert why_over(read_pod(drained)) == "it is being deleted"
    target = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "drained",
    }
    drained["status"]["conditions"] = [target]
    assert why_over(read_pod(drained)) == "EvictionByEvictionAPI: drained"


def test_a_pod_that_runs_has_an_address() -> None:
    running = item("Running", {"running": {"startedAt": STARTED}}, podIP="10.0.0.7")
    assert read_pod(running).runs
    running["metadata"]["deletionTimestamp"] = FINISHED
    assert not read_pod(running).runs
    assert read_pod(running).over


@pytest.mark.parametrize(
    "pod",
    [
        waiting("ErrImagePull", 'failed to resolve reference "docker.io/library/nope:1": not found'),
        waiting("ImagePullBackOff", 'Back-off pulling image "x": ErrImagePull: pull access denied'),
        waiting("InvalidImageName", "couldn't parse image name"),
        waiting("CreateContainerConfigError", "container has runAsNonRoot and image will run as root"),
        ended(128, reason="StartError", message='exec: "bash": executable file not found in $PATH'),
        ended(127, reason="ContainerCannotRun", message="stat /bin/bash: no such file or directory"),
    ],
)
def test_an_image_that_cannot_start_is_the_settings_fault(pod: dict[str, Any]) -> None:
    error = hopeless([read_pod(pod)], [])
    assert isinstance(error, UserError)
    assert "kubernetes.image" in error.hint


@pytest.mark.parametrize(
    "pod",
    [
        waiting("ContainerCreating"),
        waiting("ErrImagePull", "dial tcp 1.2.3.4:443: i/o timeout"),
        waiting("ImagePullBackOff", 'Back-off pulling image "python:3.11"'),
        item(startTime=None, conditions=[{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available: pod has unbound claims, not found"}]),
    ],
)  # fmt: skip
def test_what_may_pass_is_waited_for(pod: dict[str, Any]) -> None:
    assert hopeless([read_pod(pod)], []) is None


def test_the_pod_that_cannot_start_is_blamed_and_not_those_that_end_with_it() -> None:
    going = item("Running", {"running": {"startedAt": STARTED}}, podIP="10.0.0.7")
    going["metadata"]["deletionTimestamp"] = FINISHED
    cause = ended(128, reason="StartError", message='exec: "bash": executable file not found in $PATH')
    error = hopeless([read_pod(going), read_pod(cause)], [])
    assert isinstance(error, UserError)
    assert "StartError" in error.message


def test_a_pod_that_was_evicted_early_may_be_had_elsewhere() -> None:
    evicted = item("Failed", reason="Evicted", message="The node was low on resource: memory.")
    error = hopeless([read_pod(evicted)], [])
    assert type(error) is CloudError
    assert "low on resource" in error.message


def test_what_a_jobs_events_say_counts() -> None:
    quota = 'Error creating: pods "x" is forbidden: exceeded quota: team, requested: pods=1'
    assert isinstance(hopeless([], [quota]), NoCapacityError)
    policy = 'Error creating: pods "x" is forbidden: violates PodSecurity "restricted:latest"'
    assert isinstance(hopeless([], [policy]), UserError)
    webhook = 'Error creating: admission webhook "policy" denied the request: no limits are set'
    assert isinstance(hopeless([], [webhook]), UserError)
    assert hopeless([], ["Error creating: Internal error occurred: failed calling webhook"]) is None


def test_the_scheduler_says_why_nothing_starts() -> None:
    told = "0/2 nodes are available: 2 Insufficient cpu."
    blocked = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": told}
    assert why_not_started([read_pod(item(conditions=[blocked]))], []) == f"Unschedulable: {told}"
    assert why_not_started([], []) == "no pod says why"
