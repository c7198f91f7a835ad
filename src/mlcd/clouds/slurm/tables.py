"""What Slurm's commands print, as values. Pure.

Formats with a separator are the same in all versions of Slurm; what `--json` prints is another with each. Moments are seconds
since the epoch, which SLURM_TIME_FORMAT=%s asks for.
A shell may print more than the command does: lines with another number of columns are passed over.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

NODE_FORMAT = "%N|%R|%a|%c|%m|%b|%G|%T|%l|%s"
JOB_FORMAT = "%i|%j|%T|%S|%e|%V|%D|%r|%k"
ENDED_FORMAT = "JobIDRaw,JobName,State,Start,End"
COMPLETED_FORMAT = "JobID,JobName,State,End"
_NONE = ("(null)", "N/A", "None", "Unknown")
_TEST_ONLY = re.compile(r"to start at (\d{9,})\b")  # not the year of a date
_PREEMPTED = re.compile(r"\bPreemptTime=[1-9]\d*\b")
_SUBMITTED = re.compile(r"^(\d+)(?:;\S*)?$", re.MULTILINE)
_MINUTE, _HOUR, _DAY = 60, 3600, 86400


@dataclass(frozen=True)
class NodeRow:
    """A node in one of its partitions."""

    name: str
    partition: str
    up: bool  # the partition
    cpus: int
    memory_mib: int
    features: tuple[str, ...]
    gres: str
    state: str
    max_seconds: int | None  # of a job; None: no limit
    max_nodes: int | None  # of a job; None: no limit

    @property
    def usable(self) -> bool:
        """Whether jobs run there, now or when others have ended."""
        return self.up and not self.state.endswith("*") and self.state.rstrip("~#!%$@^-+") in _USABLE


# A node that is powered down, planned, reserved, blocked or to be rebooted takes jobs again.
_USABLE = (
    *("idle", "allocated", "mixed", "completing", "planned", "reserved", "blocked"),
    *("powered_down", "powering_up", "powering_down", "power_up", "power_down"),
    *("reboot", "reboot_issued", "reboot_requested"),
)
_WAIT = ("PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT", "EXPEDITING")
_HOLD = (
    *("RUNNING", "CONFIGURING", "POWER_UP_NODE", "SUSPENDED", "STOPPED", "SIGNALING", "RESIZING"),
    *("STAGE_OUT", "STAGING_OUT"),
)
_OVER = (
    *("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "DEADLINE", "PREEMPTED", "REVOKED"),
    *("NODE_FAIL", "BOOT_FAIL", "OUT_OF_MEMORY"),
)


@dataclass(frozen=True)
class JobRow:
    """A job in the queue, or one that has left it not long ago."""

    id: int
    name: str
    state: str
    started_at: float | None  # or expected to be
    ends_at: float | None  # or ended at
    submitted_at: float | None
    nodes: int
    reason: str
    comment: str = ""

    @property
    def waits(self) -> bool:
        """Whether it holds nothing yet, but may come to."""
        return self.state in _WAIT

    @property
    def holds(self) -> bool:
        """Whether it holds its nodes."""
        return self.state in _HOLD

    @property
    def ended(self) -> bool:
        """Whether it is over; one that is completing, or in a state that nobody here knows, may not be yet and is cancelled."""
        return self.state in _OVER


def read_nodes(text: str) -> list[NodeRow]:
    """From `sinfo -h -N -o NODE_FORMAT`."""
    return [_node(fields) for fields in _rows(text, 10) if fields[3].isdigit() and fields[4].rstrip("+").isdigit()]


def read_jobs(text: str) -> list[JobRow]:
    """From `squeue -h --states=all -o JOB_FORMAT`, oldest first."""
    rows = [_job(fields) for fields in _rows(text, 9) if fields[0].isdigit()]
    return sorted(rows, key=lambda row: row.id)


def read_ended(text: str) -> list[JobRow]:
    """From `sacct -n -P -X -o ENDED_FORMAT`."""
    rows = [fields for fields in _rows(text, 5) if fields[0].isdigit()]
    return [
        JobRow(int(id_), name, _state(state), _moment(start), _moment(end), None, 0, "")
        for id_, name, state, start, end in rows
    ]


def read_completed(text: str) -> list[JobRow]:
    """From `sacct -n -P -c -o COMPLETED_FORMAT`, where there is no accounting but a file of ended jobs."""
    rows = [fields for fields in _rows(text, 4) if fields[0].isdigit()]
    return [JobRow(int(id_), name, _state(state), None, _moment(end), None, 0, "") for id_, name, state, end in rows]


def read_submitted(text: str) -> int | None:
    """The number of the job, from what `sbatch --parsable` prints; None: it says none."""
    found = _SUBMITTED.findall(text)  # a shell's greeting, which may have numbers too, comes before
    return int(found[-1]) if found else None


def read_expected_start(text: str) -> float | None:
    """When a job would start, from what `sbatch --test-only` prints; None: it does not say."""
    found = _TEST_ONLY.search(text)
    return float(found[1]) if found else None


def read_preempted(text: str) -> bool:
    """Whether a job was told to go for another one, from `scontrol show job`."""
    return _PREEMPTED.search(text) is not None


def read_duration(text: str) -> int | None:
    """Seconds of a time as Slurm writes it: 30:00, 2:00:00, 1-12:00:00; None: no limit."""
    days, _, rest = text.rpartition("-")
    parts = rest.split(":")
    if not all(part.isdigit() for part in [*parts, days or "0"]):
        return None
    hours, minutes, seconds = ([0, 0, 0] + [int(part) for part in parts])[-3:]
    return int(days or 0) * _DAY + hours * _HOUR + minutes * _MINUTE + seconds


def _node(fields: Sequence[str]) -> NodeRow:
    name, partition, available, cpus, memory, features, gres, state, limit, size = fields
    return NodeRow(
        name=name,
        partition=partition,
        up=available == "up",
        cpus=int(cpus),
        memory_mib=int(memory.rstrip("+")),
        features=tuple(sorted(word for word in features.split(",") if word and word not in _NONE)),
        gres="" if gres in _NONE else gres,
        state=state,
        max_seconds=read_duration(limit),
        max_nodes=_most(size),
    )


def _most(size: str) -> int | None:
    most = size.rpartition("-")[2]
    return int(most) if most.isdigit() else None


def _job(fields: Sequence[str]) -> JobRow:
    id_, name, state, starts, ends, submitted, nodes, reason, comment = fields
    return JobRow(
        int(id_),
        name,
        _state(state),
        _moment(starts),
        _moment(ends),
        _moment(submitted),
        int(nodes.partition("-")[0]) if nodes[:1].isdigit() else 0,
        "" if reason in _NONE else reason,
        "" if comment in _NONE else comment,
    )


def _state(text: str) -> str:
    """The word alone: accounting says who cancelled a job, too."""
    return text.split()[0].rstrip("+") if text else ""


def _moment(text: str) -> float | None:
    return float(text) if text.isdigit() and text != "0" else None


def _rows(text: str, columns: int) -> list[list[str]]:
    rows = [line.strip().split("|", columns - 1) for line in text.splitlines()]
    return [row for row in rows if len(row) == columns]
