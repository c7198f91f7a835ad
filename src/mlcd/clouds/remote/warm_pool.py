"""Machines that wait, for a short while and already paid for, for the next task of their job.

home/warm/<job>/<machine>@<task>.json is there while a machine waits that this task keeps. Who takes the file away has the
machine: the next task, which moves it into its own folder, or the runner that keeps it warm, when the time is up. The name says
who keeps it, so that nobody ends a machine that a later task keeps. Should all be killed, the lease on the machine itself
runs out at the same moment.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

from mlcd.clouds.remote.base import Machine
from mlcd.clouds.tasks.files import write_atomically
from mlcd.core.machines import Deployment, Offer
from mlcd.core.serial import from_json, to_json

LAST_SECONDS = 8.0  # a lease that ends sooner is not taken over: it might be over by the machine's clock


@dataclass(frozen=True)
class WarmMachine:
    """A machine that waits, or that a task has taken over."""

    machine: Machine
    kind: str  # of the offer: only the same will do
    until: float  # paid for up to then, and gone after it unless a task takes it over
    taken_at: float = 0.0  # when a task took it over and renewed its lease; 0: not yet

    @property
    def ends_soon(self) -> bool:
        """Whether its lease is about to end, or over."""
        return not self.taken_at and self.until - time.time() < LAST_SECONDS


def kind_of(offer: Offer) -> str:
    """What the offers of two tasks must have in common to use the same machines."""
    return f"{offer.instance.name}@{offer.region}{'-spot' if offer.spot else ''}"


def offer(into: Path, task_id: str, kind: Offer, machines: Sequence[Machine], until: float) -> None:
    """Write down that these may wait for the next task of the job; nobody can take them yet."""
    into.mkdir(parents=True, exist_ok=True)
    for machine in machines:
        write_atomically(into / _name(machine, task_id), to_json(WarmMachine(machine, kind_of(kind), until)))


def publish(home: Path, job_id: str, offered: Path) -> None:
    """Let those that were offered wait; each once, whoever is killed and however often this is done again."""
    folder = _folder(home, job_id)
    folder.mkdir(parents=True, exist_ok=True)
    for file in sorted(offered.glob("*.json")):
        _move(file, folder / file.name)


def claim(home: Path, job_id: str, deployment: Deployment, into: Path) -> list[WarmMachine]:
    """Take as many as the deployment can use; a claim that was made before a kill is found again."""
    into.mkdir(parents=True, exist_ok=True)
    wanted = Counter({kind_of(group.offer): group.nodes for group in deployment.groups})
    wanted.subtract(warm.kind for warm in claimed(into))
    for file in sorted(_folder(home, job_id).glob("*.json")):
        warm = _read(file)
        if warm is None or wanted[warm.kind] <= 0 or warm.ends_soon:
            continue
        wanted[warm.kind] -= _move(file, into / file.name)
    return claimed(into)


def claimed(into: Path) -> list[WarmMachine]:
    """What was claimed so far."""
    return [warm for file in sorted(into.glob("*.json")) if (warm := _read(file)) is not None]


def take(into: Path, warm: WarmMachine) -> WarmMachine:
    """Write down that its lease was renewed: it is ours from now on, and ours to pay once the time that it was kept for is over.

    One whose lease was renewed too late is not taken: it may be ending already.
    """
    if warm.ends_soon:
        return warm
    taken = replace(warm, taken_at=time.time())
    write_atomically(_file_of(into, warm), to_json(taken))
    return taken


def refuse(into: Path, warm: WarmMachine) -> None:
    """Write down that it is about to be given back: whoever goes on after a kill must not take it."""
    write_atomically(_file_of(into, warm), to_json(replace(warm, until=0.0)))


def drop(into: Path, warm: WarmMachine) -> None:
    """Forget a claim: the machine was given back."""
    _file_of(into, warm).unlink(missing_ok=True)


def taken_over(warm: WarmMachine) -> Machine:
    """The machine as its next task pays for it."""
    machine, since = warm.machine, warm.taken_at or time.time()
    rented_at = machine.rented_at or machine.billed_from
    return replace(machine, billed_from=since, paid_until=warm.until, rented_at=rented_at)


def unclaimed(home: Path, job_id: str, machines: Sequence[Machine], task_id: str) -> list[Machine]:
    """Those that this task keeps and nobody took; they are ours alone from now on, to be given back."""
    folder = _folder(home, job_id)
    return [machine for machine in machines if _remove(folder / _name(machine, task_id))]


def _name(machine: Machine, task_id: str) -> str:
    return f"{quote(machine.id, safe='')}@{quote(task_id, safe='')}.json"


def _file_of(into: Path, warm: WarmMachine) -> Path:
    """Its claim, whichever task kept it before."""
    return next(iter(into.glob(f"{quote(warm.machine.id, safe='')}@*.json")))


def _folder(home: Path, job_id: str) -> Path:
    return home / "warm" / quote(job_id or "-", safe="")


def _read(file: Path) -> WarmMachine | None:
    try:
        return from_json(WarmMachine, file.read_text())
    except FileNotFoundError:  # someone else was faster
        return None


def _move(file: Path, target: Path) -> bool:
    """Whether it was still there."""
    try:
        file.rename(target)
    except FileNotFoundError:
        return False
    return True


def _remove(file: Path) -> bool:
    try:
        file.unlink()
    except FileNotFoundError:
        return False
    return True
