"""A Ray cluster, with the promises of a cloud: what all remote machines share, and what Ray says of its placement groups."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mlcd.clouds.ray.bridge_client import BridgeClient
from mlcd.clouds.ray.kinds import make_offers
from mlcd.clouds.ray.placement_groups import Group
from mlcd.clouds.ray.session import load_ray
from mlcd.clouds.ray.settings import RaySettings
from mlcd.clouds.remote.cloud import RemoteCloud
from mlcd.core.clock import moment
from mlcd.core.machines import Deployment, Offer
from mlcd.core.study import ProbeTime
from mlcd.core.task import Handle, Owned

# A placement group, actors, the code, and the program's own start, until a probe has shown it.
START_SECONDS = 12.0


class RayCloud(RemoteCloud):
    """See mlcd.clouds.base.Cloud for what it promises."""

    name = "ray"
    provider = "mlcd.clouds.ray.machines:open_machines"

    def __init__(self, home: Path, settings: RaySettings) -> None:
        load_ray()
        super().__init__(home)
        self._settings = settings
        self._bridge = BridgeClient(asdict(settings), self.home / "bridge.log")

    def offers(self) -> Sequence[Offer]:
        """The nodes of the cluster, busy or not: a task waits for its turn, free of charge."""
        date = moment(self.clock.now()).date().isoformat()
        return make_offers(self._bridge.ask("nodes"), self._settings, date)

    def expected_probe(self, measuring_seconds: float) -> ProbeTime:
        """Starting there, and the measuring."""
        return ProbeTime(START_SECONDS + measuring_seconds, step_seconds=1.0, nodes_per_step=1)

    def owned(self) -> Iterable[Owned]:
        """Every placement group of ours, whoever asked for it."""
        found = [Group(**group) for group in self._bridge.ask("owned")]
        return [Owned(one.task_id, one.task_id, one.job_id, one.what, one.since) for one in found]

    def stop(self, handle: Handle) -> None:
        """Ask the runner to end it; what has no runner any more, or none here, is given back at once."""
        files = self.files_of(handle)
        state = files.read_state()
        if files.read_spec() is None or (state is not None and state.state.ended):
            self._bridge.ask("release", task=handle)
        else:
            super().stop(handle)

    def options(self, deployment: Deployment) -> dict[str, Any]:
        """What a runner needs to know; the same for every deployment."""
        return asdict(self._settings)

    def close(self) -> None:
        """End the bridge; what runs goes on."""
        self._bridge.close()
