"""Trials that failed: which of them say something, and when they say that the program or the cloud works nowhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from mlcd.core.machines import Deployment
from mlcd.core.trial import Failure, FailureKind, Trial
from mlcd.engine.missing_modules import refuse_missing_module
from mlcd.engine.probe_result import SHARE_HINT
from mlcd.errors import CloudError, MlcdError, TaskFailedError, UserError
from mlcd.search.trials import tells_of_gpus

PROGRAM_FAULTS = (FailureKind.CRASHED, FailureKind.SILENT, FailureKind.HUNG, FailureKind.NO_GPU)
NOT_RUN = (
    FailureKind.NO_CAPACITY,
    FailureKind.REFUSED,
    FailureKind.NOT_STARTED,
    FailureKind.LOST,
    FailureKind.UNFIT,
)
FORGIVABLE = (
    *PROGRAM_FAULTS,
    FailureKind.NOT_SHARED,
    FailureKind.NO_CAPACITY,
    FailureKind.REFUSED,
    FailureKind.NOT_STARTED,
    FailureKind.UNFIT,
)
FAULTS_OR_MEMORY = (*PROGRAM_FAULTS, FailureKind.OUT_OF_MEMORY, FailureKind.NOT_SHARED)
FAULTS_BEFORE_GIVING_UP = 2  # the same fault on two deployments with no success is the program's
LOSSES_BEFORE_GIVING_UP = 3  # a machine that went away is no fault of its deployment; thrice it may be


def trials_that_count(trials: Sequence[Trial], fixes: int) -> tuple[Trial, ...]:
    """The trials that say something of their deployment.

    Machines that went away say nothing, unless they do it again and again; nor does a lack of memory that was cut to the
    batch, nor a checkpoint that could not be loaded, nor faults of the program or of the cloud's settings that were made before the last of so many fixes.
    """
    losses = Counter(trial.deployment for trial in trials if _reason(trial) is FailureKind.LOST)
    pardoned = {deployment for deployment, count in losses.items() if count < LOSSES_BEFORE_GIVING_UP}
    return tuple(
        trial
        for trial in trials
        if _reason(trial) is not FailureKind.NOT_LOADED
        and not (_reason(trial) is FailureKind.OUT_OF_MEMORY and trial.deployment.is_cut)
        and not (_reason(trial) is FailureKind.LOST and trial.deployment in pardoned)
        and not (_reason(trial) in FORGIVABLE and trial.fixes < fixes)
    )


def _reason(trial: Trial) -> FailureKind | None:
    return None if trial.failure is None else trial.failure.reason


def refuse_broken_program(trials: Sequence[Trial], space: Sequence[Deployment]) -> None:
    """Stop paying for probes of a program that runs nowhere.

    One that makes no steps would make none on other machines. That it needs a GPU is a fault only where no machine has one.
    """
    if any(trial.measurement for trial in trials):
        return
    for trial in trials:
        if trial.failure is not None and trial.failure.reason is FailureKind.CRASHED:
            refuse_missing_module(trial.failure.log_tail, trial.deployment.offer.cloud)
    gpus = any(deployment.offer.instance.gpus for deployment in space)
    failed = [trial.failure for trial in trials if trial.failure and not (gpus and tells_of_gpus(trial))]
    faults = [failure for failure in failed if failure.reason in PROGRAM_FAULTS]
    certain = [f for f in faults if f.reason is FailureKind.SILENT or (f.reason is FailureKind.NO_GPU and not gpus)]
    if certain or len(faults) >= min(FAULTS_BEFORE_GIVING_UP, len(space)):
        raise _ran_nowhere(certain or faults)


def refuse_failing_cloud(trials: Sequence[Trial], deployments: int) -> None:
    """Stop where the cloud refuses what would not change by asking again, or could start nothing so far."""
    if any(trial.measurement for trial in trials):
        return
    failures = [trial.failure for trial in trials if trial.failure is not None]
    refused = [failure for failure in failures if failure.reason is FailureKind.REFUSED]
    if refused:
        raise UserError(refused[-1].message, refused[-1].hint)
    failed = [failure for failure in failures if failure.reason is FailureKind.NOT_STARTED]
    if len(failed) >= min(FAULTS_BEFORE_GIVING_UP, deployments):
        raise _started_nowhere(failed)


def refuse_failed_starts(trials: Sequence[Trial]) -> None:
    """Where nothing can be chosen because nothing could be started, that is why, and not the goal."""
    failures = [trial.failure for trial in trials if trial.failure is not None]
    not_run = [failure for failure in failures if failure.reason in NOT_RUN]
    if not_run and len(failures) == len(trials):
        raise _started_nowhere(not_run)


def refuse_failing_program(trials: Sequence[Trial]) -> None:
    """Where nothing can be chosen because nothing ran, the program failed, not the goal."""
    failures = [trial.failure for trial in trials if trial.failure is not None]
    if failures and len(failures) == len(trials) and all(f.reason in FAULTS_OR_MEMORY for f in failures):
        raise _ran_nowhere(failures)


def _ran_nowhere(failures: Sequence[Failure]) -> TaskFailedError:
    last = failures[-1]
    hint = {
        FailureKind.SILENT: "mlcd saw no steps. Loop over mlcd.steps(loader), or give a `progress: {pattern: …}` "
        "that fits the log; raise `probe.silent_seconds` if it needs longer to begin. `mlcd resume` tries again.",
        FailureKind.NOT_SHARED: f"{SHARE_HINT} `mlcd resume` tries again.",
        FailureKind.NO_GPU: "Allow machines with GPUs (`resources: {accelerators: …}`, see `mlcd offers`), or let the "
        "program use the CPU where torch.cuda.is_available() is False; `mlcd resume` tries again.",
        FailureKind.OUT_OF_MEMORY: "Allow larger machines, smaller values of `batch_size`, or several passes to a "
        "step with `batch_size.accumulate`.",
    }.get(last.reason, "The end of its log says why. Fix the program; `mlcd resume` tries it again.")
    return TaskFailedError(f"The program {_what_it_did(failures)} ({last.message}).", hint, last.log_tail)


def _what_it_did(failures: Sequence[Failure]) -> str:
    """What became of it, each kind of failure with its own count."""
    counts = Counter(_DID.get(failure.reason, failure.reason.value) for failure in failures)
    if len(counts) == 1:
        return f"{next(iter(counts))} on {_every_one(len(failures))}"
    return " and ".join(f"{did} on {count} of the deployments tried" for did, count in counts.items())


_DID = {
    FailureKind.NO_GPU: "found no GPU",
    FailureKind.OUT_OF_MEMORY: "ran out of memory",
    FailureKind.NOT_SHARED: "did the same work on every rank",
}


def _started_nowhere(failures: Sequence[Failure]) -> MlcdError:
    last = failures[-1]
    return CloudError(
        f"The program could not be run on {_every_one(len(failures))}: {last.reason} ({last.message}).",
        last.hint or "`mlcd resume` tries it again.",
    )


def _every_one(count: int) -> str:
    return "the deployment tried" if count == 1 else f"each of the {count} deployments tried"
