"""A Kubernetes cluster, with the promises of a cloud: what all remote machines share, and what kubectl lists."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from mlcd.clouds.kubernetes.kubectl import Kubectl
from mlcd.clouds.kubernetes.machines import KubernetesMachines
from mlcd.clouds.kubernetes.manifests import JOB, MANAGED, TASK, WHAT
from mlcd.clouds.kubernetes.pools import make_offers, read_pools, read_prices
from mlcd.clouds.remote.cloud import RemoteCloud
from mlcd.clouds.remote.files import Spec, State
from mlcd.core.clock import moment
from mlcd.core.machines import Deployment, Offer
from mlcd.core.study import ProbeTime
from mlcd.core.task import Charge, Owned
from mlcd.errors import NoCapacityError
from mlcd.settings import KubernetesSettings

START_SECONDS = 40.0  # to pull the image and start the pods, until a probe has shown it


class KubernetesCloud(RemoteCloud):
    """See mlcd.clouds.base.Cloud for what it promises."""

    name = "kubernetes"
    poll_seconds = 1.0
    seller = "mlcd.clouds.kubernetes.machines:open_machines"

    def __init__(self, home: Path, settings: KubernetesSettings) -> None:
        super().__init__(home)
        self._settings = settings
        self._kubectl = Kubectl.of(asdict(settings))

    def offers(self) -> Sequence[Offer]:
        """The node pools, busy or not."""
        pools = read_pools(self._kubectl.items("nodes"), self._settings.pool_label)
        date = moment(self.clock.now()).date().isoformat()
        return make_offers(pools, read_prices(self._settings.prices), self._settings, date)

    def expected_probe(self, measuring_seconds: float) -> ProbeTime:
        """Starting there, and the measuring."""
        return ProbeTime(START_SECONDS + measuring_seconds, step_seconds=2.0, nodes_per_step=1)

    def owned(self) -> Iterable[Owned]:
        """Every Job of ours that has not ended, whoever asked for it."""
        label = ",".join(f"{name}={value}" for name, value in MANAGED.items())
        return [_owned(job) for job in self._kubectl.items("jobs", "--selector", label) if _goes_on(job)]

    def charges(self, spec: Spec, state: State, now: float) -> tuple[Charge, ...]:
        """One line: all nodes from the moment that their pods began, by the second."""
        deployment = spec.deployment
        seconds = max(0.0, now - (state.started_at if state.started_at is not None else now))
        what = f"{deployment.nodes} × {deployment.offer.name}{deployment.serving}"
        return (Charge(what, seconds, deployment.usd(seconds)),)

    def machines(self) -> KubernetesMachines:
        """For what is to be ended without a courier."""
        return KubernetesMachines(asdict(self._settings))

    def options(self, deployment: Deployment) -> dict[str, Any]:
        """What a courier needs to know; the same for every deployment."""
        return asdict(self._settings)

    def refuse(self, deployment: Deployment) -> None:
        """More nodes than the pool has are not asked for."""
        if deployment.nodes > deployment.offer.max_nodes:
            raise NoCapacityError(
                f"{deployment} is more than the pool has: {deployment.offer.max_nodes} nodes.",
                "Ask for fewer nodes.",
            )


def _owned(job: dict[str, Any]) -> Owned:
    metadata = job["metadata"]
    notes = metadata["annotations"]
    since = datetime.fromisoformat(metadata["creationTimestamp"]).timestamp()
    return Owned(notes[TASK], notes[TASK], notes.get(JOB, ""), notes.get(WHAT, ""), since)


def _goes_on(job: dict[str, Any]) -> bool:
    ended = {"Complete", "Failed"}
    conditions = job.get("status", {}).get("conditions", [])
    going = "deletionTimestamp" in job["metadata"]
    return not going and not any(each["type"] in ended and each["status"] == "True" for each in conditions)
