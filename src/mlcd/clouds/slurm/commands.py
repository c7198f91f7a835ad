"""Runs Slurm's commands on the login node, and says in plain words what they said. Nothing else in mlcd calls them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from mlcd.clouds.remote.base import BusyError, CommandResult, Reach, UnreachableError
from mlcd.clouds.slurm.kinds import Kind, read_kinds
from mlcd.clouds.slurm.limits import QOS_FORMAT, read_partition_qos, read_qos, within
from mlcd.clouds.slurm.states import in_words, is_away
from mlcd.clouds.slurm.tables import (
    COMPLETED_FORMAT,
    ENDED_FORMAT,
    JOB_FORMAT,
    NODE_FORMAT,
    JobRow,
    NodeRow,
    read_completed,
    read_ended,
    read_expected_start,
    read_jobs,
    read_nodes,
    read_preempted,
    read_submitted,
)
from mlcd.errors import CloudError

SECONDS = 30.0
_ME = '--user="$(id -un)"'


class Slurm:
    """The commands of one cluster."""

    def __init__(self, login: Reach) -> None:
        self._login = login

    def nodes(self) -> list[NodeRow]:
        """All nodes, once for each of their partitions."""
        return read_nodes(self._must("list nodes", f"sinfo -h -N -o {shlex.quote(NODE_FORMAT)}"))

    def kinds(self, qos: str = "") -> list[Kind]:
        """What is for sale to jobs of that quality of service, within the limits of the partitions and of the QOS of each."""
        kinds, of_partition = (
            read_kinds(self.nodes()),
            read_partition_qos(self._say("scontrol --oneliner show partition")),
        )
        known = read_qos(self._say(f"sacctmgr -n -P show qos format={QOS_FORMAT}")) if qos or of_partition else {}
        return within(kinds, of_partition, qos, known)

    def jobs(self, name: str = "") -> list[JobRow]:
        """Our user's jobs of that name, those that have ended a short while ago included; no name: all."""
        which = f"--name={shlex.quote(name)}" if name else ""
        return read_jobs(self._must("list jobs", f"squeue -h --states=all {_ME} {which} -o {shlex.quote(JOB_FORMAT)}"))

    def ended(self, name: str) -> list[JobRow]:
        """What is on record of jobs of that name that the queue has forgotten: by accounting, or else the file of ended jobs."""
        words = f"--name={shlex.quote(name)} -S now-30days"
        ran = self._run(f"sacct -n -P -X {words} -o {ENDED_FORMAT}")
        if ran.code == 0:
            return read_ended(ran.output)
        ran = self._run(f"sacct -n -P -c {words} -o {COMPLETED_FORMAT}")
        return [job for job in read_completed(ran.output) if job.name == name] if ran.code == 0 else []

    def submit(self, words: Sequence[str], script: str) -> int:
        """Submit a batch job; its number."""
        said = self._must("submit a job", shlex.join(["sbatch", "--parsable", *words]), script)
        number = read_submitted(said)
        if number is None:
            raise CloudError(f"sbatch did not say which job it has submitted: {said.strip()[-200:]}")
        return number

    def expected_start(self, words: Sequence[str], script: str) -> float | None:
        """When such a job would start, as far as the scheduler can tell now; None: it does not say."""
        return read_expected_start(self._must("plan a job", shlex.join(["sbatch", "--test-only", *words]), script))

    def cancel(self, ids: Sequence[int]) -> None:
        """End these jobs; those that are over are passed over."""
        if ids:
            self._must("cancel jobs", shlex.join(["scancel", "--quiet", *map(str, ids)]))

    def preempted(self, number: int) -> bool:
        """Whether a job was preempted; one that ended in order within its time of grace has no state that says so."""
        ran = self._run(f"scontrol --oneliner show job {number}")
        return ran.code == 0 and read_preempted(ran.output)

    def version(self) -> str:
        """Of the commands."""
        return self._must("tell its version", "sinfo --version").strip()

    def _run(self, command: str, stdin: str = "") -> CommandResult:
        return self._login.run(f"SLURM_TIME_FORMAT=%s {command}", stdin.encode(), SECONDS)

    def _say(self, command: str) -> str:
        """What a command says of what mlcd can do without; nothing where there is no accounting, or it does not answer."""
        try:
            ran = self._run(command)
        except UnreachableError:
            return ""
        return "" if ran.code else ran.output

    def _must(self, doing: str, command: str, stdin: str = "") -> str:
        ran = self._run(command, stdin)
        if ran.code and is_away(ran.output):
            error = in_words(doing, ran.output)
            raise BusyError(error.message, error.hint)
        if ran.code:
            raise in_words(doing, ran.output)
        return ran.output
