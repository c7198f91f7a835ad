"""The batch job of a task: its name, sbatch's options, the script. Pure."""

from __future__ import annotations

import math
import re
import shlex
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import quote, unquote

from mlcd.clouds.slurm.kinds import Kind
from mlcd.errors import UserError

PREFIX = "mlcd-"
MARGIN_SECONDS = 180.0  # beyond the task's own limit and its grace: for the start, and for the last files
LEAST_SECONDS = 900.0  # beside the forecast: what starts for the first time may take long
FORECAST_SHARE = 1.5  # of the forecast
LEAD_SECONDS = 20.0  # beyond the grace, from Slurm's signal until the allocation ends
_MINUTE = 60.0
_MANY_HOURS = 365 * 24.0
# What a job must not be told otherwise: it would not be found again, run twice, or run on nodes that nobody asked for.
_OURS = (
    *("--job-name", "-J", "--comment", "--array", "-a", "--dependency", "-d", "--requeue", "--wrap", "--wait", "-W"),
    *("--nodes", "-N", "--ntasks", "-n", "--time", "-t", "--signal", "--chdir", "-D", "--output", "-o", "--test-only"),
    *("--clusters", "-M", "--parsable"),
)
_NUMBERED = re.compile(r"(.*?)(\d+)")

SCRIPT = """#!/bin/bash
# An allocation of mlcd: a host on each node; see {base}.
leave() {{ for node in {base}/node-*; do touch "$node/leaving"; done; }}
trap leave TERM
{before}
srun --ntasks="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1 --cpus-per-task="$SLURM_CPUS_ON_NODE" --cpu-bind=none \\
  --kill-on-bad-exit=0 --wait=0 {python} {base}/host.py {base} {lease_seconds:g} < /dev/null &
while kill -0 $! 2> /dev/null; do wait $!; done
"""


@dataclass(frozen=True)
class Comment:
    """What a job says of itself, for whoever looks for jobs of mlcd."""

    task_id: str
    job_id: str
    what: str

    def __str__(self) -> str:
        return "mlcd/" + "/".join(quote(word, safe="") for word in (self.task_id, self.job_id, self.what))


@dataclass(frozen=True)
class Wanted:
    """How long a task may run, and how long it is expected to."""

    max_seconds: float | None = None  # None: it has no limit
    expected_seconds: float = 0.0  # 0: not known

    def seconds(self, hours: float) -> float:
        """How long to ask for: a forecast that was too short costs another turn in the queue, a long job a later one."""
        limit = hours * 3600.0 if self.max_seconds is None and not self.expected_seconds else self.max_seconds
        expected = LEAST_SECONDS + FORECAST_SHARE * self.expected_seconds if self.expected_seconds else math.inf
        return min(expected, math.inf if limit is None else limit)


@dataclass(frozen=True)
class Request:
    """An allocation that is asked for."""

    comment: Comment
    kind: Kind
    nodes: int
    minutes: int
    grace_seconds: float
    base: str  # the folder of the task
    account: str = ""
    qos: str = ""
    options: str = ""


def job_name(task_id: str) -> str:
    """The name of a task's job."""
    return PREFIX + quote(task_id, safe="")


def read_comment(text: str) -> Comment | None:
    """What a job says of itself; None: it is not ours."""
    parts = text.split("/")
    return Comment(*(unquote(part) for part in parts[1:])) if parts[0] == "mlcd" and len(parts) == 4 else None


def minutes_of(wanted: Wanted, grace_seconds: float, most_seconds: int | None, hours: float) -> int:
    """How long the allocation may last: what the task needs and a margin, and no longer than the partition allows."""
    seconds = wanted.seconds(hours) + grace_seconds + MARGIN_SECONDS
    minutes = math.ceil(min(seconds, _MANY_HOURS * 3600.0) / _MINUTE)
    return minutes if most_seconds is None else max(1, min(minutes, int(most_seconds // _MINUTE)))


def sbatch_words(request: Request) -> list[str]:
    """The options of sbatch: whole nodes of one kind and no others."""
    kind = request.kind
    lead = math.ceil(min(request.grace_seconds + LEAD_SECONDS, request.minutes * _MINUTE / 4))
    words = [
        f"--job-name={job_name(request.comment.task_id)}",
        f"--comment={request.comment}",
        f"--partition={kind.partition}",
        f"--nodes={request.nodes}-{request.nodes}",
        "--ntasks-per-node=1",
        "--exclusive",
        "--mem=0",
        f"--time={request.minutes}",
        f"--signal=B:TERM@{lead}",
        "--no-requeue",
        "--dependency=singleton",  # submitted again by mistake, it waits for the first and is found
        f"--chdir={request.base}",
        f"--output={request.base.replace('%', '%%')}/slurm.log",  # sbatch knows patterns: %j
    ]
    named = {"gres": kind.gres, "exclude": hostlist(kind.others), "account": request.account, "qos": request.qos}
    return words + [f"--{name}={value}" for name, value in named.items() if value] + more_words(request.options)


def more_words(options: str) -> list[str]:
    """More options for sbatch, as words; those that are mlcd's own to say are refused."""
    try:
        words = shlex.split(options)
    except ValueError as error:
        raise UserError(f"slurm.options cannot be read: {error}.", f"It says: {options}") from error
    for word in words:
        name = word.partition("=")[0] if word.startswith("--") else word[:2]
        if name in _OURS:
            raise UserError(f"slurm.options has {name}, which mlcd itself says to sbatch.", "Take it out.")
    return words


def hostlist(names: Iterable[str]) -> str:
    """Names of nodes as Slurm shortens them, for a line has an end: c[1-3],c[08-09],login."""
    groups: dict[tuple[str, int], list[int]] = defaultdict(list)
    plain = []
    for name in sorted(set(names)):
        found = _NUMBERED.fullmatch(name)
        if found is None:
            plain.append(name)
        else:
            groups[found[1], len(found[2])].append(int(found[2]))
    return ",".join([f"{prefix}[{_ranges(numbers, width)}]" for (prefix, width), numbers in groups.items()] + plain)


def _ranges(numbers: list[int], width: int) -> str:
    """Numbers in order, with a dash between the first and the last of those that follow each other."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    ends = [sorted({run[0], run[-1]}) for run in runs]
    return ",".join("-".join(f"{end:0{width}}" for end in each) for each in ends)


def batch_script(base: str, python: str, before: str, lease_seconds: float) -> str:
    """What runs on the first node."""
    return SCRIPT.format(base=shlex.quote(base), python=shlex.quote(python), before=before, lease_seconds=lease_seconds)
