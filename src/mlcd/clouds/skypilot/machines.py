"""Rents machines for one task through SkyPilot: a cluster of its own, reached by ssh."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Mapping, Sequence
from hashlib import sha256
from math import ceil, inf
from pathlib import Path
from typing import Any

from mlcd.clouds.remote.base import Machine, Notes, PlainMachines, Reach
from mlcd.clouds.remote.ssh import SshReach
from mlcd.clouds.skypilot.catalog import place_of
from mlcd.clouds.skypilot.sdk import in_our_words, key_file, load_sky, said
from mlcd.core.machines import Deployment
from mlcd.errors import CloudError

PREFIX = "mlcd-"


class SkyMachines(PlainMachines):
    """See mlcd.clouds.remote.base.Machines for what it promises. SkyPilot's autostop ends a cluster that nobody renews."""

    def __init__(self, home: Path, options: Mapping[str, Any], notes: Notes | None = None) -> None:
        self._home = home
        self._notes = notes
        self._options = options
        self.python = str(options["python"])
        self.lease_seconds = float(options["lease_seconds"])
        self.lost_seconds = float(options["lost_seconds"])
        self.may_have_rented = False
        self._renewed_at = -inf

    def acquire(self, task_id: str, job_id: str, deployment: Deployment, had: Sequence[Machine]) -> Sequence[Machine]:
        """The task's cluster, found by its name or launched; SkyPilot takes it down again where that fails."""
        sky = load_sky()
        self._note_when()
        with in_our_words(sky):
            request = sky.launch(
                self._nothing_to_do(sky, deployment),
                cluster_name=name_of(task_id),
                idle_minutes_to_autostop=self._minutes,
                down=True,
            )
            self.may_have_rented = True
            sky.get(request)
        machines = self.find(task_id)
        if len(machines) < deployment.nodes:
            self.release(machines)
            raise CloudError(f"SkyPilot launched {len(machines)} machines where {deployment.nodes} were asked for.")
        for machine in machines:
            reach = self.reach(machine)
            reach.run(f"mkdir -p {shlex.quote(reach.base)}")
            reach.close()
        return machines

    def find(self, task_id: str) -> Sequence[Machine]:
        """The nodes of the cluster while it is up; itself while it is being made."""
        sky = load_sky()
        name = task_id if task_id.startswith(PREFIX) else name_of(task_id)
        with in_our_words(sky):
            found = sky.get(sky.status([name], refresh=sky.StatusRefreshMode.FORCE))
        if not found:
            return []
        record = found[0]
        # SkyPilot counts whole seconds.
        since = max(float(said(record, "launched_at") or time.time()), self._asked_at)
        if said(record, "status") != sky.ClusterStatus.UP:
            return [Machine(name, "", "", since, details={"cluster": name})]
        handle = said(record, "handle")
        return [
            _machine(name, number, internal, external, handle, since)
            for number, (internal, external) in enumerate(handle.stable_internal_external_ips or [])
        ]

    def release(self, machines: Sequence[Machine]) -> None:
        """Take the clusters down."""
        sky = load_sky()
        for name in {machine.details["cluster"] for machine in machines}:
            try:
                with in_our_words(sky):
                    sky.get(sky.down(name))
            except CloudError as error:
                if not isinstance(error.__cause__, sky.exceptions.ClusterDoesNotExist):
                    raise

    def renewed(self, machines: Sequence[Machine], until: float) -> None:
        """Setting the autostop anew sets SkyPilot's clock of idleness back."""
        if time.monotonic() - self._renewed_at < self.lease_seconds / 4:
            return
        self._renewed_at = time.monotonic()
        sky = load_sky()
        for name in {machine.details["cluster"] for machine in machines}:
            with in_our_words(sky):
                sky.get(sky.autostop(name, self._minutes, down=True))

    def reach(self, machine: Machine) -> Reach:
        """By ssh, with SkyPilot's key."""
        details = machine.details
        known = self._home / "known" / machine.id.replace("/", "-")
        named = str(self._options["key"])
        key = Path(named).expanduser() if named else key_file()
        folder = str(self._options["folder"]) or _home_of(details["user"])
        base = f"{folder}/{machine.id.replace('/', '-')}"
        return SshReach(machine.host, details["user"], key, known, base, int(details["port"]))

    def _note_when(self) -> None:
        """Take note of the moment before the first launch, whoever has to repeat it."""
        if self._notes is not None and not self._asked_at:
            self._notes.note("asked at", f"{time.time():.3f}")

    @property
    def _asked_at(self) -> float:
        return float(self._notes.read_notes().get("asked at", 0.0)) if self._notes is not None else 0.0

    @property
    def _minutes(self) -> int:
        return max(1, ceil(self.lease_seconds / 60))

    def _nothing_to_do(self, sky: Any, deployment: Deployment) -> Any:
        """A task that only has the cluster made; the program is the agents' business."""
        cloud, region = place_of(deployment.offer)
        instance = deployment.offer.instance
        task = sky.Task(name="mlcd", num_nodes=deployment.nodes)
        task.set_resources(
            sky.Resources(
                infra=f"{cloud}/{region}" if region else cloud,
                instance_type=instance.name,
                accelerators={instance.gpu_model: instance.gpus} if instance.gpus else None,
                use_spot=deployment.offer.spot,
            )
        )
        return task


def open_machines(home: Path, options: Mapping[str, Any], notes: Notes) -> SkyMachines:
    """For the runner."""
    return SkyMachines(home, options, notes)


def name_of(task_id: str) -> str:
    """A cluster name that every cloud accepts, and no other task has."""
    slug = re.sub(r"[^a-z0-9]+", "-", task_id.lower()).strip("-")[:18].strip("-")
    return f"{PREFIX}{slug or 'task'}-{sha256(task_id.encode()).hexdigest()[:8]}"


def _home_of(user: str) -> str:
    return "/root/mlcd" if user == "root" else f"/home/{user}/mlcd"


def _machine(name: str, number: int, internal: str, external: str, handle: Any, since: float) -> Machine:
    ports = handle.stable_ssh_ports or []
    details = {
        "cluster": name,
        "user": str(handle.ssh_user),
        "port": str(ports[number] if number < len(ports) else 22),
    }
    return Machine(f"{name}/{number}", external, internal, since, details=details)
