"""A Ray cluster, with the promises of a cloud: what all remote machines share, and what Ray's books say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mlcd.clouds.ray.asking import Teller
from mlcd.clouds.ray.books import Entry
from mlcd.clouds.ray.kinds import make_offers
from mlcd.clouds.ray.session import load_ray
from mlcd.clouds.ray.settings import RaySettings
from mlcd.clouds.remote.cloud import RemoteCloud
from mlcd.clouds.remote.files import Spec, State
from mlcd.core.clock import moment
from mlcd.core.machines import Deployment, Offer
from mlcd.core.study import ProbeTime
from mlcd.core.task import Charge, Handle, Owned
from mlcd.errors import NoCapacityError

START_SECONDS = (
    12.0  # a placement group, actors, the code, and the program's own start, until a probe has shown it
)


class RayCloud(RemoteCloud):
    """See mlcd.clouds.base.Cloud for what it promises."""

    name = "ray"
    provider = "mlcd.clouds.ray.machines:open_machines"

    def __init__(self, home: Path, settings: RaySettings) -> None:
        load_ray()
        super().__init__(home)
        self._settings = settings
        self._teller = Teller(asdict(settings), self.home / "teller.log")

    def offers(self) -> Sequence[Offer]:
        """The nodes of the cluster, busy or not: a task waits for its turn, free of charge."""
        date = moment(self.clock.now()).date().isoformat()
        return make_offers(self._teller.ask("nodes"), self._settings, date)

    def expected_probe(self, measuring_seconds: float) -> ProbeTime:
        """Starting there, and the measuring."""
        return ProbeTime(START_SECONDS + measuring_seconds, step_seconds=1.0, nodes_per_step=1)

    def owned(self) -> Iterable[Owned]:
        """Every placement group of ours, whoever asked for it."""
        found = [Entry(**entry) for entry in self._teller.ask("owned")]
        return [Owned(one.task_id, one.task_id, one.job_id, one.what, one.since) for one in found]

    def stop(self, handle: Handle) -> None:
        """Ask the courier to end it; what has no courier any more, or none here, is given back at once."""
        files = self.files_of(handle)
        state = files.read_state()
        if files.read_spec() is None or (state is not None and state.state.ended):
            self._teller.ask("release", task=handle)
        else:
            super().stop(handle)

    def charges(self, spec: Spec, state: State, now: float) -> tuple[Charge, ...]:
        """One line: all nodes from the moment that they were ours, by the second."""
        deployment = spec.deployment
        seconds = max(0.0, now - (state.started_at if state.started_at is not None else now))
        what = f"{deployment.nodes} × {deployment.offer.name}{deployment.serving}"
        return (Charge(what, seconds, deployment.usd(seconds)),)

    def options(self, deployment: Deployment) -> dict[str, Any]:
        """What a courier needs to know; the same for every deployment."""
        return asdict(self._settings)

    def refuse(self, deployment: Deployment) -> None:
        """More nodes than the cluster has are not asked for."""
        if deployment.nodes > deployment.offer.max_nodes:
            raise NoCapacityError(
                f"{deployment} is more than the Ray cluster has: {deployment.offer.max_nodes} such nodes.",
                "Ask for fewer nodes.",
            )

    def close(self) -> None:
        """Let the teller go; what runs goes on."""
        self._teller.close()
