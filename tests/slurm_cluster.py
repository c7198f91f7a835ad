"""A real Slurm on this computer: munged, slurmctld and some slurmd, in a process namespace of their own.

All that the cluster runs, jobs included, ends with the namespace, and that ends when whoever started it is gone: its first
process reads its orders from a pipe. Folder, ports and keys are the cluster's own, so that several may run at once.
"""

from __future__ import annotations

import os
import secrets
import shlex
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

NEEDED = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "sinfo", "scancel", "unshare")
NODES = ("n1", "n2", "n3")
SUPERVISOR = 'while read -r line; do eval "$line" & done'
CONF = """
ClusterName=test
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={root}/munge.sock
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/%n.pid
SlurmdSpoolDir={root}/spool-%n
StateSaveLocation={root}/state
SlurmctldLogFile={root}/slurmctld.log
SlurmdLogFile={root}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
ReturnToService=2
SlurmdTimeout=10
KillWait=10
BatchStartTimeout=20
MessageTimeout=5
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/filetxt
JobCompLoc={root}/jobcomp.txt
SchedulerParameters=sched_interval=2,bf_interval=2,sched_min_interval=100000,batch_sched_delay=0
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
{nodes}
PartitionName=main Nodes=n1,n2,n3 Default=YES MaxTime=02:00:00 PriorityTier=1 GraceTime=20 State=UP
PartitionName=pair Nodes=n1,n2,n3 MaxTime=01:00:00 MaxNodes=2 PriorityTier=1 GraceTime=20 State=UP
PartitionName=short Nodes=n1,n2,n3 MaxTime=00:01:00 PriorityTier=1 State=UP
PartitionName=urgent Nodes=n1,n2,n3 MaxTime=00:10:00 PriorityTier=9 PreemptMode=OFF State=UP
"""
NODE = "NodeName={name} NodeAddr=127.0.0.1 NodeHostname=localhost Port={port} CPUs=2 RealMemory=2000 Features=small State=UNKNOWN"
PRICES = "partition,per,price\n*,core,0.05\npair,node,0.2\n"


def why_not() -> str:
    """Why no cluster can be started here; empty: one can."""
    missing = [command for command in NEEDED if shutil.which(command) is None]
    if missing:
        return f"needs {', '.join(missing)}: apt-get install slurmctld slurmd slurm-client munge util-linux"
    if os.getuid() != 0:
        return "only root can start a Slurm cluster of its own"
    done = subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", "true"], capture_output=True, text=True)
    return f"no process namespace can be made here: {done.stderr.strip()}" if done.returncode else ""


class SlurmCluster:
    """The cluster, and what only an administrator of one does."""

    def __init__(self) -> None:
        # A short path: sockets cannot have long ones.
        self.root = Path(tempfile.mkdtemp(prefix="mlcd-slurm-"))
        self.conf = self.root / "slurm.conf"
        self.prices = self.root / "prices.csv"
        self._write()
        words = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-c", SUPERVISOR]
        with (self.root / "daemons.log").open("ab") as log:
            self._supervisor = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=log, stderr=log, text=True)
        self._order(self._munged())
        self.wait(lambda: (self.root / "munge.sock").exists())
        self.start_controller()
        for name in NODES:
            self.start_node(name)
        self.wait(self.all_idle)

    def start_controller(self) -> None:
        """slurmctld, which keeps what it knew."""
        self._order(f"slurmctld -D -f {self.conf}")

    def start_node(self, name: str) -> None:
        """A slurmd."""
        self._order(f"slurmd -D -f {self.conf} -N {name}")

    def kill(self, *words: str) -> None:
        """Kill -9 of the daemons whose command lines have all of these words."""
        for process, line in self.lines():
            if all(word in line for word in words):
                process.kill()

    def kill_controller(self) -> None:
        """The controller is gone; what runs goes on."""
        self.kill("slurmctld")

    def hide(self, folder: Path) -> None:
        """The nodes see an empty folder there, as if it were not shared."""
        self._order(f"mount -t tmpfs none {folder}")
        time.sleep(0.5)

    def show(self, folder: Path) -> None:
        """They see it again."""
        self._order(f"umount -l {folder}")

    def command(self, *words: str) -> str:
        """What a command of Slurm prints, as the administrator calls it."""
        done = subprocess.run(words, capture_output=True, text=True, env=self.environ, cwd=self.conf.parent, timeout=60)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout.strip()

    @property
    def environ(self) -> dict[str, str]:
        """How a command finds this cluster."""
        return {**os.environ, "SLURM_CONF": str(self.conf)}

    def jobs(self) -> list[str]:
        """Names of the jobs that wait or run."""
        return self.command("squeue", "-h", "-t", "PD,R,CF,S", "-o", "%j").split()

    def all_idle(self) -> bool:
        """Whether nothing runs, and every node takes jobs."""
        done = subprocess.run(
            ["sinfo", "-h", "-N", "-p", "main", "-o", "%T"], capture_output=True, text=True, env=self.environ
        )
        return done.stdout.split() == ["idle"] * len(NODES)

    def processes(self) -> list[psutil.Process]:
        """Everything in the namespace."""
        try:
            return psutil.Process(self._supervisor.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def lines(self) -> list[tuple[psutil.Process, list[str]]]:
        """Everything in the namespace that still runs, with its command line."""
        found = []
        for process in self.processes():
            with suppress(psutil.Error):
                found.append((process, process.cmdline()))
        return found

    def wait(self, condition: Callable[[], bool], seconds: float = 60.0) -> None:
        """Until it is so."""
        give_up_at = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < give_up_at, f"it did not come to be: {self._logs()}"
            time.sleep(0.2)

    def reset(self) -> None:
        """Cancel what is left, start what was killed, and wait until all nodes are free."""
        lines = [line for _, line in self.lines()]
        if not any(line[:1] == ["slurmctld"] for line in lines):
            self.start_controller()
            self.wait(lambda: subprocess.run(["sinfo"], capture_output=True, env=self.environ).returncode == 0)
        for name in NODES:
            if not any(line[:1] == ["slurmd"] and name in line for line in lines):
                self.start_node(name)
        self.command("scancel", "--user=root")
        self.wait(self.all_idle, 90.0)

    def close(self) -> None:
        """End all of it."""
        assert self._supervisor.stdin is not None
        self._supervisor.stdin.close()
        self._supervisor.wait(20)
        shutil.rmtree(self.root, ignore_errors=True)

    def _munged(self) -> str:
        paths = {"key-file": "key", "socket": "sock", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
        options = " ".join(f"--{name}={self.root}/munge.{end}" for name, end in paths.items())
        return f"munged --foreground --force {options}"

    def _order(self, line: str) -> None:
        assert self._supervisor.stdin is not None
        self._supervisor.stdin.write(f"exec {shlex.join(shlex.split(line))}\n")
        self._supervisor.stdin.flush()

    def _write(self) -> None:
        (self.root / "state").mkdir()
        key = self.root / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)
        ports = _free_ports(len(NODES) + 1)
        for name in NODES:
            (self.root / f"spool-{name}").mkdir()
        nodes = [NODE.format(name=name, port=port) for name, port in zip(NODES, ports[1:], strict=True)]
        self.conf.write_text(CONF.format(root=self.root, ports=ports, nodes="\n".join(nodes)))
        self.prices.write_text(PRICES)

    def _logs(self) -> str:
        files = [*self.root.glob("*.log")]
        return "\n".join(f"{file.name}: {file.read_text(errors='replace')[-1500:]}" for file in files)


def _free_ports(count: int) -> list[int]:
    """Ports that nobody has now."""
    held = [socket.socket() for _ in range(count)]
    for one in held:
        one.bind(("127.0.0.1", 0))
    ports = [int(one.getsockname()[1]) for one in held]
    for one in held:
        one.close()
    return ports
