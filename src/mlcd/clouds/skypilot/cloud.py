"""SkyPilot, with the promises of a cloud: what all remote machines share, and what SkyPilot's own records say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mlcd.clouds.remote.cloud import RemoteCloud
from mlcd.clouds.remote.files import TaskFiles
from mlcd.clouds.skypilot.catalog import make_offers
from mlcd.clouds.skypilot.machines import PREFIX, SkyMachines, name_of
from mlcd.clouds.skypilot.sdk import in_our_words, load_sky, said
from mlcd.clouds.skypilot.settings import SkyPilotSettings
from mlcd.core.clock import moment
from mlcd.core.machines import Deployment, Offer
from mlcd.core.study import ProbeTime
from mlcd.core.task import Owned
from mlcd.errors import NoCapacityError

START_SECONDS = 240.0  # SkyPilot needs minutes to have a cluster up, until a probe has shown it


class SkyPilotCloud(RemoteCloud):
    """See mlcd.clouds.base.Cloud for what it promises."""

    name = "skypilot"
    poll_seconds = 1.0
    provider = "mlcd.clouds.skypilot.machines:open_machines"

    def __init__(self, home: Path, settings: SkyPilotSettings) -> None:
        load_sky()
        super().__init__(home)
        self._settings = settings

    def offers(self) -> Sequence[Offer]:
        """The accelerators of SkyPilot's catalog, in the clouds that the settings name or all that are enabled."""
        sky = load_sky()
        clouds = [word.strip() for word in self._settings.clouds.split(",") if word.strip()]
        with in_our_words(sky):
            listed = sky.get(sky.list_accelerators(gpus_only=True, clouds=clouds or None, all_regions=False))
        return make_offers(listed, self._settings.max_nodes, moment(self.clock.now()).date().isoformat())

    def expected_probe(self, measuring_seconds: float) -> ProbeTime:
        """Starting there, and the measuring."""
        return ProbeTime(START_SECONDS + measuring_seconds, step_seconds=20.0, nodes_per_step=1)

    def owned(self) -> Iterable[Owned]:
        """Every cluster of ours that SkyPilot knows of; those of other computers go by the cluster's name."""
        sky = load_sky()
        with in_our_words(sky):
            clusters = sky.get(sky.status(None, refresh=sky.StatusRefreshMode.NONE))
        known = {name_of(files.id): files for files in self._tasks()}
        return [_owned(row, known) for row in clusters if said(row, "name").startswith(PREFIX)]

    def machines(self) -> SkyMachines:
        """For what is to be ended without a runner."""
        return SkyMachines(self.home, asdict(self._settings))

    def options(self, deployment: Deployment) -> dict[str, Any]:
        """What a runner needs to know; the same for every deployment."""
        return asdict(self._settings)

    def refuse(self, deployment: Deployment) -> None:
        """More nodes than the settings allow are not asked for."""
        if deployment.nodes > deployment.offer.max_nodes:
            raise NoCapacityError(
                f"{deployment} is more than skypilot.max_nodes allows ({deployment.offer.max_nodes}).",
                "Ask for fewer nodes, or raise the setting.",
            )

    def _tasks(self) -> list[TaskFiles]:
        folder = self.home / "tasks"
        return [TaskFiles(path) for path in folder.iterdir()] if folder.is_dir() else []


def _owned(row: Any, known: dict[str, TaskFiles]) -> Owned:
    name, since = str(said(row, "name")), float(said(row, "launched_at") or 0.0)
    spec = known[name].read_spec() if name in known else None
    if spec is None:
        return Owned(name, name, "", f"the SkyPilot cluster {name}", since)
    return Owned(spec.task.id, spec.task.id, spec.task.job_id, str(spec.deployment), since, spec.deployment)
