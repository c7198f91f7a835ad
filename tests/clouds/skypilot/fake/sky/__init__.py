"""A stand-in for SkyPilot: clusters are files, their machines are this computer's sshd. State: $FAKE_SKY/."""

from __future__ import annotations

import enum
import json
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from sky import exceptions as exceptions


class ClusterStatus(enum.Enum):
    INIT = "INIT"
    UP = "UP"


class StatusRefreshMode(enum.Enum):
    NONE = "NONE"
    FORCE = "FORCE"


class InstanceTypeInfo(NamedTuple):
    cloud: str
    instance_type: str | None
    accelerator_name: str
    accelerator_count: float
    cpu_count: float | None
    device_memory: float | None
    memory: float | None
    price: float
    spot_price: float
    region: str


class Resources:
    def __init__(self, infra: str, instance_type: str, accelerators: Any, use_spot: bool) -> None:
        self.words = {
            "infra": infra,
            "instance_type": instance_type,
            "accelerators": accelerators,
            "spot": use_spot,
        }


class Task:
    def __init__(self, name: str, num_nodes: int) -> None:
        self.name, self.num_nodes, self.resources = name, num_nodes, {}

    def set_resources(self, resources: Resources) -> None:
        self.resources = resources.words


def list_accelerators(gpus_only: bool, clouds: list[str] | None, all_regions: bool) -> Any:
    a100 = InstanceTypeInfo("GCP", "a2-highgpu-1g", "A100", 1, 12, 40, 85, 3.67, 1.1, "us-central1")
    v100 = InstanceTypeInfo("Azure", "Standard_NC6s_v3", "V100", 1, 6, 16, 112, 3.06, float("nan"), "eastus")
    tpu = InstanceTypeInfo("GCP", None, "tpu-v3-8", 1, None, None, None, 8.0, 2.4, "us-central1")
    return {"A100": [a100], "V100": [v100], "tpu-v3-8": [tpu]}


def launch(task: Task, cluster_name: str, idle_minutes_to_autostop: int, down: bool) -> Any:
    if task.resources["instance_type"] == "Standard_NC6s_v3":
        return exceptions.ResourcesUnavailableError("Failed to provision all possible launchable resources.")
    assert down
    file = _file(cluster_name)
    if not file.exists():
        words = {"nodes": task.num_nodes, "at": int(time.time()), "asked": task.resources}
        file.write_text(json.dumps({**words, "autostop": idle_minutes_to_autostop}))
    return None


def status(names: list[str] | None, refresh: StatusRefreshMode) -> Any:
    files = [_file(name) for name in names] if names is not None else sorted(_file("x").parent.glob("*.json"))
    return [_row(file) for file in files if file.exists()]


def down(name: str) -> Any:
    if not _file(name).exists():
        return exceptions.ClusterDoesNotExist(f"Cluster {name!r} does not exist.")
    _file(name).unlink()
    return None


def autostop(name: str, minutes: int, down: bool) -> Any:
    assert down
    if not _file(name).exists():
        return exceptions.ClusterNotUpError(f"Cluster {name!r} is not up.\nIts state is STOPPED.")
    words = json.loads(_file(name).read_text())
    _file(name).write_text(json.dumps({**words, "autostop": minutes, "renewed": words.get("renewed", 0) + 1}))
    return None


def get(request: Any) -> Any:
    if isinstance(request, Exception):
        raise request
    return request


def _row(file: Path) -> SimpleNamespace:
    words, door = json.loads(file.read_text()), json.loads(os.environ["FAKE_SKY_DOOR"])
    handle = SimpleNamespace(
        stable_internal_external_ips=[("127.0.0.1", "127.0.0.1")] * words["nodes"],
        stable_ssh_ports=[door["port"]] * words["nodes"],
        ssh_user=door["user"],
    )
    # An object: the way of a dict is there for old programs, and is to go.
    return SimpleNamespace(name=file.stem, launched_at=words["at"], status=ClusterStatus.UP, handle=handle)


def _file(name: str) -> Path:
    return Path(os.environ["FAKE_SKY"]) / f"{name}.json"
