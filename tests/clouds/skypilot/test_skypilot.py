"""SkyPilot keeps the promises of a cloud, as far as a stand-in for its SDK can show it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from clouds.provider_contract import ProviderContract
from mlcd.clouds.base import Cloud
from mlcd.clouds.remote.base import Machine
from mlcd.clouds.skypilot import open_cloud
from mlcd.clouds.skypilot.machines import SkyMachines, name_of
from mlcd.clouds.skypilot.sdk import in_our_words, load_sky, said
from mlcd.clouds.skypilot.settings import SkyPilotSettings
from mlcd.clouds.tasks.processes import end_marked
from mlcd.core.machines import Deployment
from mlcd.core.task import Task
from mlcd.errors import CloudError, NoCapacityError
from mlcd.settings import Settings


@pytest.fixture(autouse=True)
def _clear_machines(sky_settings: SkyPilotSettings) -> Iterator[None]:
    """What the end of a machine means here: nothing of it runs any more."""
    yield
    for root in Path(sky_settings.folder).glob("*/tasks/*"):
        end_marked(root, patience_seconds=5.0)
    shutil.rmtree(sky_settings.folder, ignore_errors=True)


@pytest.mark.slow
class TestSkyPilotCloud(ProviderContract):
    """Real runners, agents and ssh; only the renting is a stand-in."""

    @pytest.fixture(autouse=True)
    def _enter(self, sky_settings: SkyPilotSettings) -> None:
        self.settings = sky_settings

    def open_cloud(self, home: Path) -> Cloud:
        return open_cloud(replace(Settings(home=home), clouds=(self.settings,)), {})

    def test_a_cluster_is_asked_for_by_cloud_type_and_accelerator(self, cloud: Cloud, task: Task) -> None:
        self.running(cloud, self.endless(task))
        asked = read_cluster(task.id)["asked"]
        assert asked["infra"] == "gcp/us-central1"
        assert asked["instance_type"] == "a2-highgpu-1g"
        assert asked["accelerators"] == {"A100": 1}
        assert read_cluster(task.id)["autostop"] == 30

    def test_no_capacity_is_told(self, cloud: Cloud, task: Task) -> None:
        azure = next(offer for offer in cloud.offers() if offer.region.startswith("azure"))
        with suppress(NoCapacityError):  # at once, or a little later where this computer is slow
            cloud.launch(task, Deployment(azure, 1), {})
        assert "Failed to provision" in self.ended(cloud, task.id).reason


def read_cluster(task_id: str) -> dict[str, object] | dict[str, dict[str, object]]:
    import os

    return dict(json.loads((Path(os.environ["FAKE_SKY"]) / f"{name_of(task_id)}.json").read_text()))


def test_the_catalog_becomes_offers_on_demand_and_spot(tmp_path: Path, sky_settings: SkyPilotSettings) -> None:
    cloud = open_cloud(replace(Settings(home=tmp_path), clouds=(sky_settings,)), {})
    found = [(o.instance.name, o.region, o.spot, o.usd_per_hour) for o in cloud.offers()]
    assert found == [
        ("a2-highgpu-1g", "gcp/us-central1", False, 3.67),
        ("a2-highgpu-1g", "gcp/us-central1", True, 1.1),
        ("Standard_NC6s_v3", "azure/eastus", False, 3.06),
    ]


def test_the_lease_is_renewed_by_the_autostop(tmp_path: Path, sky_settings: SkyPilotSettings) -> None:
    import os

    (Path(os.environ["FAKE_SKY"]) / "mlcd-a.json").write_text(json.dumps({"nodes": 1, "at": 1, "autostop": 5}))
    machines = SkyMachines(tmp_path, {**vars(sky_settings)})
    mine = [Machine("mlcd-a/0", "h", "a", 0.0, details={"cluster": "mlcd-a"})]
    machines.renewed(mine, 0.0)
    machines.renewed(mine, 0.0)  # too soon to be worth a call
    words = json.loads((Path(os.environ["FAKE_SKY"]) / "mlcd-a.json").read_text())
    assert (words["autostop"], words["renewed"]) == (30, 1)


def test_names_are_short_and_differ() -> None:
    names = [name_of(task) for task in ("a/b", "a b", "x" * 200, "")]
    assert len(set(names)) == 4
    assert all(len(name) <= 32 and name.startswith("mlcd-") for name in names)


def test_errors_that_derive_from_nothing_are_told_in_our_words(tmp_path: Path, sky_settings: SkyPilotSettings) -> None:
    machines = SkyMachines(tmp_path, {**vars(sky_settings)})
    mine = [Machine("mlcd-a/0", "h", "a", 0.0, details={"cluster": "mlcd-a"})]
    with pytest.raises(CloudError, match=r"^SkyPilot: Cluster 'mlcd-a' is not up\.\n"):
        machines.renewed(mine, 0.0)


@pytest.mark.parametrize("error", [KeyError("handle"), AssertionError(), TypeError("on its server")])
def test_whatever_ends_a_request_on_its_server_is_told_in_our_words(
    sky_settings: SkyPilotSettings, error: Exception
) -> None:
    with pytest.raises(CloudError, match=r"^SkyPilot: \w"), in_our_words(load_sky()):
        raise error


def test_records_are_read_as_dicts_or_as_objects() -> None:
    assert said({"name": "mlcd-a"}, "name") == said(SimpleNamespace(name="mlcd-a"), "name") == "mlcd-a"


def test_the_key_is_asked_of_skypilot_unless_one_is_named(tmp_path: Path, sky_settings: SkyPilotSettings) -> None:
    import os

    machine = Machine("mlcd-a/0", "h", "a", 0.0, details={"cluster": "mlcd-a", "user": "me", "port": "22"})

    def key_of(settings: SkyPilotSettings) -> str:
        return str(vars(SkyMachines(tmp_path, {**vars(settings)}).reach(machine))["_key"])

    assert key_of(sky_settings) == json.loads(os.environ["FAKE_SKY_DOOR"])["key"]
    assert key_of(replace(sky_settings, key="/my/key")) == "/my/key"
