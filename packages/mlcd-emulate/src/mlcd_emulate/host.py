"""One emulated machine: namespaces, a disk of its own, limits, a shaped link and an sshd."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from pathlib import Path

from mlcd.errors import CloudError
from mlcd_emulate.cgroups import Cgroups
from mlcd_emulate.emulation import Emulation
from mlcd_emulate.image import INIT, folders_to_show, host_name, python_needs, write_seed
from mlcd_emulate.network import NAMESPACES, Link
from mlcd_emulate.scale import HostSize
from mlcd_emulate.system import kill_quietly, tool_environment

POWERED_OFF = (10, 128 + 2)  # how a host ends: by its commands, or by the system call
BOOTS_AGAIN = (11, 128 + 1)
_BOOT_MARK = b"MLCD_EMULATED_BOOT="
_FILLER = Path("var/lib/disk-filler")
_PATIENCE_S = 10.0


@dataclass(frozen=True)
class HostSpec:
    """What a host is made from: the API's instance, as far as the host cares."""

    instance_id: str
    address: IPv4Address
    prefix: int  # length of the network's
    size: HostSize
    keys: Sequence[str] = ()
    user_data: bytes = b""


@dataclass
class Host:
    """A machine that runs, or did."""

    emulation: Emulation
    spec: HostSpec
    cgroups: Cgroups
    private: Sequence[Path] = ()  # folders of this computer that hosts do not see
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    _first: int = 0  # its first process, as this computer numbers it

    @property
    def link(self) -> Link:
        """Its way to the others."""
        return Link(self.emulation, self.spec.address)

    @property
    def folder(self) -> Path:
        """What it was booted from, and its console."""
        return self.emulation.host_folder(self.spec.instance_id)

    @property
    def console(self) -> Path:
        """What it said while booting."""
        return self.folder / "console.log"

    def start(self) -> None:
        """Make it and let it boot; returns before it has."""
        self._write_seed()
        self.link.make(self.spec.prefix, self.spec.size.network_mbit)
        self.cgroups.make(self._group, self.spec.size.memory_mib)
        self.boot()

    def boot(self) -> None:
        """Run its first process, with a fresh disk."""
        with self.console.open("ab") as console:
            self._process = subprocess.Popen(
                ("sh", "-c", self._boot_line()),
                env=self._boot_environment(),
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                start_new_session=True,
            )

    def ended(self) -> int | None:
        """Its first process's exit status; None while it runs."""
        status = self._process.poll() if self._process else None
        return status if status is None or status >= 0 else 128 - status

    def console_tail(self) -> str:
        """The end of what it said while booting."""
        return "\n".join(self.console.read_text(errors="replace").splitlines()[-5:])

    def used_cpu_s(self) -> float:
        """The CPU seconds that it has used."""
        return self.cgroups.used_cpu_s(self._group)

    def is_limited(self) -> bool:
        """Whether it is held to its share of the CPU now, its credit being used up."""
        return self.cgroups.is_limited(self._group)

    def kill_sessions(self) -> int:
        """Kill what came by ssh, and spare what came with the boot; gives how many processes that were."""
        doomed = [pid for pid in self.processes() if _came_by_ssh(pid)]
        kill_quietly(doomed)
        return len(doomed)

    def power_off(self) -> None:
        """End it at once; for its peers it falls silent, for the link goes first."""
        self.link.connect(False)
        self.end_processes()

    def fill_disk(self) -> None:
        """Leave not a byte of its disk."""
        filler = self._root() / _FILLER
        size = 1 << 24
        with filler.open("wb") as file:
            while size:
                try:
                    os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, size)
                except OSError:  # no room for as much
                    size //= 2

    def free_disk(self) -> None:
        """Give back what was filled."""
        (self._root() / _FILLER).unlink(missing_ok=True)

    def remove(self) -> None:
        """End it and remove all that was made for it; what is gone is gone."""
        self.end_processes()
        self.link.remove()
        self.cgroups.remove(self._group)
        shutil.rmtree(self.folder, ignore_errors=True)

    def processes(self) -> set[int]:
        """Its processes, as this computer numbers them."""
        return self.cgroups.processes(self._group)

    def end_processes(self) -> None:
        """Kill all its processes and wait until they are gone; the first may not have joined the others yet."""
        patience = time.monotonic() + _PATIENCE_S
        while left := self.processes() | self._unended():
            kill_quietly(left)
            if time.monotonic() > patience:
                raise CloudError(f"Processes of {self.spec.instance_id} do not end: {sorted(left)}")
            time.sleep(0.01)

    def _unended(self) -> set[int]:
        """The process that it boots by, while it runs."""
        return {self._process.pid} if self._process and self._process.poll() is None else set()

    @property
    def _group(self) -> str:
        return self.spec.instance_id

    def _root(self) -> Path:
        """Its root, seen from here."""
        if not self._first or _number_inside(self._first) != 1:
            self._first = next((pid for pid in self.processes() if _number_inside(pid) == 1), 0)
        if self._first:
            return Path(f"/proc/{self._first}/root")
        raise CloudError(f"{self.spec.instance_id} does not run.")

    def _write_seed(self) -> None:
        self.folder.mkdir(parents=True, mode=0o700)
        write_seed(self.folder / "seed", self.spec.address, self.spec.keys)
        lines = folders_to_show(Path("/proc/self/mountinfo").read_text(), self.private, python_needs())
        (self.folder / "folders").write_text("".join(f"{line}\n" for line in lines))
        if self.spec.user_data:
            (self.folder / "user-data").write_bytes(self.spec.user_data)

    def _boot_line(self) -> str:
        joins = "; ".join(f"echo $$ > {shlex.quote(str(door))}" for door in self.cgroups.doors(self._group))
        namespace = shlex.quote(str(NAMESPACES / self.link.namespace))
        apart = "unshare --mount --propagation private --pid --fork --kill-child --uts --ipc"
        # Under nohup a hangup is ignored by all that follow, and a shell cannot trap it any more: it is how a host boots again.
        heeding = "env --default-signal=HUP"
        return f"{joins}; exec {heeding} nsenter --net={namespace} {apart} bash {shlex.quote(str(INIT))}"

    def _boot_environment(self) -> dict[str, str]:
        return dict(
            tool_environment(
                HOST_FOLDER=str(self.folder),
                HOST_IMAGE=str(self.emulation.folder / "image"),
                HOST_NAME=host_name(self.spec.address),
                HOST_DISK_MIB=str(self.spec.size.disk_mib),
                HOST_MEMORY_MIB=str(self.spec.size.memory_mib),
            )
        )


def _came_by_ssh(pid: int) -> bool:
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
        name = Path(f"/proc/{pid}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return (
        not name.startswith("sshd")
        and not any(each.startswith(_BOOT_MARK) for each in environment.split(b"\0"))
        and _number_inside(pid) > 1
    )


def _number_inside(pid: int) -> int:
    """A process's number in its own namespace: 1 is the host's first."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    numbers = next((line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:")), ["0"])
    return int(numbers[-1]) if len(numbers) > 1 else 0
