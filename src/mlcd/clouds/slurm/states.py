"""What the states of Slurm's jobs, and the reasons why they wait, mean to a task. Pure."""

from __future__ import annotations

import re
from dataclasses import replace

from mlcd.clouds.slurm.tables import JobRow
from mlcd.clouds.tasks.outcome import Outcome
from mlcd.core.task import EndCause
from mlcd.core.units import show_duration
from mlcd.errors import CloudError, MlcdError, NoCapacityError, UserError

# An allocation that has run into its --time goes on in the next one: the task's own limit, which is shorter, is the agents'.
_CAUSES = {
    "NODE_FAIL": (EndCause.NODE_LOST, "a node of the allocation failed"),
    "BOOT_FAIL": (EndCause.NODE_LOST, "a node of the allocation did not boot"),
    "LAUNCH_FAILED": (EndCause.NODE_LOST, "the job could not be started on its nodes"),
    "RECONFIG_FAIL": (EndCause.NODE_LOST, "a node of the allocation could not be configured"),
    "PREEMPTED": (EndCause.SPOT_NOTICE, "the allocation was preempted"),
    "REVOKED": (EndCause.SPOT_NOTICE, "the allocation was revoked"),
    "TIMEOUT": (EndCause.SPOT_NOTICE, "the time of the allocation was over"),
    "DEADLINE": (EndCause.SPOT_NOTICE, "the job's deadline was over"),
    "OUT_OF_MEMORY": (EndCause.OUT_OF_MEMORY, "out of memory"),
    "CANCELLED": (EndCause.STOPPED, "the job was cancelled"),
    "FAILED": (EndCause.NODE_LOST, "the allocation ended by itself"),
    "COMPLETED": (EndCause.NODE_LOST, "the allocation ended by itself"),
}
BY_ITSELF = ("COMPLETED", "FAILED")
_TOO_MUCH = re.compile(
    r"PartitionNodeLimit|PartitionTimeLimit|PartitionInactive|PartitionDown|BadConstraints"
    r"|^(QOS|Assoc)\w*(PerJob|NotSatisfied)|^(QOS|Assoc)\w*MaxWall\w*"
    r"|^(QOS|Assoc)Grp(?!\w*Run)\w*(Minutes|Billing)"  # what the account may use is used up
    r"|requeued.held"  # its nodes could not start it
)
_REFUSED = re.compile(r"InvalidAccount|InvalidQOS|AccountNotAllowed|QOSNotAllowed|JobHeld|DependencyNeverSatisfied")
_NOT_NOW = re.compile(
    r"Unable to contact slurm controller|Connection refused|Socket timed out|slurm_load_\w+ error"
    r"|temporarily unable|Zero Bytes|Protocol authentication|not responding|Transport endpoint"
)
_NO_ROOM = re.compile(
    r"configuration is not available|configuration not available|Node count specification invalid|time limit is invalid"
    r"|violates accounting/QOS policy|Memory required by task|More processors requested|Job size specification"
    r"|not permitted to use this partition|account/partition combination|Requested nodes are busy"
    r"|Required (node|partition) not available|CPU count per node can not be satisfied"
)
_NO_COMMAND = re.compile(r"command not found|No such file or directory: '?s\w+")
_MOST = 400  # characters of what Slurm said
BY_HAND = "Try `sinfo` and `sbatch` by hand on the login node; docs/how-to/slurm.md lists the settings."


def outcome_of(job: JobRow) -> Outcome | None:
    """How a task must end whose job is over; None: it is not, or in a way that says nothing."""
    cause, words = _CAUSES.get(job.state, (None, ""))
    return None if cause is None else Outcome(cause, f"{words} (Slurm: {job.state}, job {job.id})")


def explained(outcome: Outcome, job: JobRow, preempted: bool) -> Outcome:
    """The outcome of a task that was ended from outside, by what Slurm says of its job.

    Where the agents were told to go and the job ended in order for that, or lives on, its state does not say why.
    """
    if preempted:
        return outcome_of(replace(job, state="PREEMPTED")) or outcome
    if job.state in ("SUSPENDED", "STOPPED"):  # its processes do not answer, and another job has the nodes
        return Outcome(EndCause.SPOT_NOTICE, f"the allocation was suspended (Slurm: {job.state}, job {job.id})")
    if outcome.cause is EndCause.SPOT_NOTICE and (job.holds or job.state in BY_ITSELF):
        return replace(outcome, reason=f"the time of the allocation was over (job {job.id})")
    return outcome_of(job) or outcome


def in_the_queue(job: JobRow, now: float) -> str:
    """How a job stands that waits, for people."""
    told = f"Slurm's job {job.id} waits in the queue ({job.reason or 'for its turn'})"
    if job.started_at is None or job.started_at <= now:
        return f"{told}; when it will start is not known yet"
    return f"{told}; it is expected to start in {show_duration(job.started_at - now)}"


def refusal_of_waiting(job: JobRow) -> MlcdError | None:
    """Why a job in the queue will never start as things are; None: it may."""
    where = f"Slurm will not start job {job.id}: {job.reason}."
    if _REFUSED.search(job.reason):
        return UserError(where, "Look at slurm.account, slurm.qos and slurm.options, or ask whoever runs the cluster.")
    if _TOO_MUCH.search(job.reason):
        return NoCapacityError(where, "Use fewer nodes, another partition, or a shorter deadline.")
    return None


def in_words(doing: str, said: str) -> MlcdError:
    """The error that a refusal of Slurm stands for; `doing` completes 'could not …'."""
    shown = said.strip()[-_MOST:] or "it said nothing"
    if _NO_COMMAND.search(said):
        hint = "Install Slurm's client commands here, or name the login node: slurm.login (MLCD_SLURM_LOGIN)."
        return UserError(f"Slurm could not {doing}: {shown}", hint)
    if is_away(said):
        return CloudError(f"Slurm's controller does not answer: {shown}", BY_HAND)
    if _NO_ROOM.search(said):
        return NoCapacityError(f"Slurm could not {doing}: {shown}", "Use fewer nodes, or another partition.")
    return UserError(f"Slurm could not {doing}: {shown}", BY_HAND)


def is_away(said: str) -> bool:
    """Whether the controller did not answer, as it does not while it is started anew."""
    return _NOT_NOW.search(said) is not None
