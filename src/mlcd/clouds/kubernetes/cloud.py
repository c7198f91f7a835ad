"""A Kubernetes cluster, with the promises of a cloud: what all remote machines share, and what kubectl lists."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from mlcd.clouds.kubernetes.kubectl import Kubectl
from mlcd.clouds.kubernetes.machines import KubernetesMachines, has_ended
from mlcd.clouds.kubernetes.manifests import JOB, MANAGED, TASK, WHAT
from mlcd.clouds.kubernetes.pools import make_offers, read_pools, read_prices
from mlcd.clouds.kubernetes.settings import KubernetesSettings
from mlcd.clouds.kubernetes.site import read_site
from mlcd.clouds.kubernetes.tolerations import read_tolerations
from mlcd.clouds.remote.base import Machine
from mlcd.clouds.remote.cloud import RemoteCloud
from mlcd.clouds.remote.files import Spec, State
from mlcd.core.clock import moment
from mlcd.core.machines import Deployment, Offer
from mlcd.core.study import ProbeTime
from mlcd.core.task import Charge, Owned

START_SECONDS = 40.0  # to pull the image and start the pods, until a probe has shown it


class KubernetesCloud(RemoteCloud):
    """See mlcd.clouds.base.Cloud for what it promises."""

    name = "kubernetes"
    poll_seconds = 1.0
    provider = "mlcd.clouds.kubernetes.machines:open_machines"

    def __init__(self, home: Path, settings: KubernetesSettings) -> None:
        super().__init__(home)
        self._settings = settings
        self._kubectl = Kubectl.of(asdict(settings))

    def offers(self) -> Sequence[Offer]:
        """The node pools, busy or not."""
        tolerations = read_tolerations(self._settings.tolerations)
        nodes = self._kubectl.items("list nodes", "nodes")
        pools = read_pools(nodes, self._settings.pool_label, tolerations, read_site(asdict(self._settings)))
        date = moment(self.clock.now()).date().isoformat()
        return make_offers(pools, read_prices(self._settings.prices), self._settings, date)

    def expected_probe(self, measuring_seconds: float) -> ProbeTime:
        """Starting there, and the measuring."""
        return ProbeTime(START_SECONDS + measuring_seconds, step_seconds=2.0, nodes_per_step=1)

    def owned(self) -> Iterable[Owned]:
        """Every Job of ours that has not ended, whoever asked for it."""
        label = ",".join(f"{name}={value}" for name, value in MANAGED.items())
        jobs = self._kubectl.items("list Jobs", "jobs", "--selector", label)
        return [_owned(job) for job in jobs if not has_ended(job)]

    def charges(self, spec: Spec, state: State, now: float) -> tuple[Charge, ...]:
        """One line: each node from the moment that its pod held it, by the second."""
        deployment, spans = spec.deployment, [_span(machine, state, now) for machine in state.machines]
        usd = deployment.usd(sum(spans)) / deployment.nodes
        return (Charge(deployment.machines, max(spans, default=0.0), usd),)

    def machines(self) -> KubernetesMachines:
        """For what is to be ended without a runner."""
        return KubernetesMachines({**asdict(self._settings), "grace_seconds": 0.0})

    def options(self, deployment: Deployment) -> dict[str, Any]:
        """The settings; the same for every deployment."""
        return asdict(self._settings)


def _owned(job: dict[str, Any]) -> Owned:
    metadata = job["metadata"]
    notes = metadata["annotations"]
    since = datetime.fromisoformat(metadata["creationTimestamp"]).timestamp()
    return Owned(notes[TASK], notes[TASK], notes.get(JOB, ""), notes.get(WHAT, ""), since)


def _span(machine: Machine, state: State, now: float) -> float:
    """How long a pod has held its node; one that never began holds none."""
    if not machine.billed_from:
        return 0.0
    return max(0.0, state.billed_to.get(machine.id, now) - machine.billed_from)
