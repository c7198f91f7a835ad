"""Machines that wait, for a short while and already paid for, for the next task of their job.

home/kept/<job>/<machine>.json is there while a machine waits. Who takes the file away has the machine: the next task,
which moves it into its own folder, or the courier that kept it, when the time is up. Should both be killed, the lease
on the machine itself runs out at the same moment.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

from mlcd.clouds.remote.base import Machine
from mlcd.clouds.tasks.files import write_atomically
from mlcd.core.machines import Deployment
from mlcd.core.serial import from_json, to_json

LAST_SECONDS = 8.0  # one that has less left than this is not worth the try: its lease might run out first


@dataclass(frozen=True)
class Kept:
    """A machine that waits."""

    machine: Machine
    kind: str  # of the offer: only the same will do
    until: float  # paid for up to then, and gone after it


def kind_of(deployment: Deployment) -> str:
    """What two deployments must have in common to use the same machines."""
    offer = deployment.offer
    return f"{offer.instance.name}@{offer.region}{'-spot' if offer.spot else ''}"


def keep(home: Path, job_id: str, deployment: Deployment, machines: Sequence[Machine], until: float) -> None:
    """Let these wait for the next task of the job."""
    folder = _folder(home, job_id)
    folder.mkdir(parents=True, exist_ok=True)
    for machine in machines:
        write_atomically(folder / f"{machine.id}.json", to_json(Kept(machine, kind_of(deployment), until)))


def claim(home: Path, job_id: str, deployment: Deployment, into: Path) -> list[Machine]:
    """Take as many as the deployment can use; a claim that was made before a kill is found again."""
    into.mkdir(parents=True, exist_ok=True)
    for file in sorted(_folder(home, job_id).glob("*.json")):
        kept = _read(file)
        if len(list(into.glob("*.json"))) == deployment.nodes:
            break
        if kept is None or kept.kind != kind_of(deployment) or kept.until - time.time() < LAST_SECONDS:
            continue
        _move(file, into / file.name)
    return [_taken(kept) for file in sorted(into.glob("*.json")) if (kept := _read(file)) is not None]


def unclaimed(home: Path, job_id: str, machines: Sequence[Machine]) -> list[Machine]:
    """Those of these machines that nobody took; they are ours alone from now on, to be given back."""
    folder = _folder(home, job_id)
    return [machine for machine in machines if _remove(folder / f"{machine.id}.json")]


def _taken(kept: Kept) -> Machine:
    """The machine as its next task pays for it."""
    machine = kept.machine
    return replace(machine, paid_until=kept.until, rented_at=machine.rented_at or machine.billed_from)


def _folder(home: Path, job_id: str) -> Path:
    return home / "kept" / quote(job_id or "-", safe="")


def _read(file: Path) -> Kept | None:
    try:
        return from_json(Kept, file.read_text())
    except FileNotFoundError:  # someone else was faster
        return None


def _move(file: Path, target: Path) -> None:
    try:
        file.rename(target)
    except FileNotFoundError:
        return


def _remove(file: Path) -> bool:
    try:
        file.unlink()
    except FileNotFoundError:
        return False
    return True
