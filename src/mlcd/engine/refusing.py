"""Trials that failed: which of them say something, and when they say that the program runs nowhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from mlcd.core.trial import Failure, FailureKind, Trial
from mlcd.errors import TaskFailedError

PROGRAM_FAULTS = (FailureKind.CRASHED, FailureKind.SILENT, FailureKind.HUNG)
FAULTS_OR_MEMORY = (*PROGRAM_FAULTS, FailureKind.OUT_OF_MEMORY)
FAULTS_BEFORE_GIVING_UP = 2  # the same fault on two deployments with no success is the program's
LOSSES_BEFORE_GIVING_UP = 3  # a machine that went away is no fault of its deployment; thrice it may be


def trials_that_count(trials: Sequence[Trial], forgiven: int) -> tuple[Trial, ...]:
    """The trials that say something of their deployment.

    Machines that went away say nothing, unless they do it again and again; nor do faults of a program that was
    mended since: those among the first so many trials.
    """
    losses = Counter(trial.deployment for trial in trials if _reason(trial) is FailureKind.LOST)
    pardoned = {deployment for deployment, count in losses.items() if count < LOSSES_BEFORE_GIVING_UP}
    return tuple(
        trial
        for number, trial in enumerate(trials)
        if not (_reason(trial) is FailureKind.LOST and trial.deployment in pardoned)
        and not (_reason(trial) in PROGRAM_FAULTS and number < forgiven)
    )


def _reason(trial: Trial) -> FailureKind | None:
    return None if trial.failure is None else trial.failure.reason


def refuse_broken_program(trials: Sequence[Trial], deployments: int) -> None:
    """Stop paying for probes of a program that runs nowhere."""
    if any(trial.measurement for trial in trials):
        return
    faults = [t.failure for t in trials if t.failure is not None and t.failure.reason in PROGRAM_FAULTS]
    if len(faults) < min(FAULTS_BEFORE_GIVING_UP, deployments):
        return
    raise _ran_nowhere(faults)


def refuse_failing_program(trials: Sequence[Trial]) -> None:
    """Where nothing can be chosen because nothing ran, the program failed, not the goal."""
    failures = [trial.failure for trial in trials if trial.failure is not None]
    if failures and len(failures) == len(trials) and all(f.reason in FAULTS_OR_MEMORY for f in failures):
        raise _ran_nowhere(failures)


def _ran_nowhere(failures: Sequence[Failure]) -> TaskFailedError:
    last = failures[-1]
    did = "ran out of memory" if last.reason is FailureKind.OUT_OF_MEMORY else last.reason
    hint = {
        FailureKind.SILENT: "mlcd saw no steps. Loop over mlcd.steps(loader), or give a `progress: {pattern: …}` "
        "that fits the log.",
        FailureKind.OUT_OF_MEMORY: "Allow larger machines, smaller values of `batch_size`, or several passes to a "
        "step with `batch_size.accumulate`.",
    }.get(last.reason, "The end of its log says why. Mend the program; `mlcd resume` tries it again.")
    return TaskFailedError(
        f"The program {did} on {_every_one(len(failures))} ({last.message}).", hint, last.log_tail
    )


def _every_one(count: int) -> str:
    return "the deployment tried" if count == 1 else f"each of the {count} deployments tried"
