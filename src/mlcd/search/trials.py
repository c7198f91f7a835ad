"""What the trials of a study have shown: averaged speeds, and failures with what they teach."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import exp, inf, log

from mlcd.core.machines import Deployment, InstanceType
from mlcd.core.study import Study
from mlcd.core.trial import Failure, FailureKind, Measurement, Trial

# Failures that are the program's own doing on that kind of machine; capacity and lost nodes are luck.
_PROGRAM_FAILURES = (
    FailureKind.OUT_OF_MEMORY,
    FailureKind.NO_GPU,
    FailureKind.CRASHED,
    FailureKind.HUNG,
    FailureKind.SILENT,
)
_CRASHES_THAT_CONVINCE = 2


def measured_trials(study: Study) -> tuple[Trial, ...]:
    """One trial for each deployment that was measured, its repeated measurements averaged; oldest first."""
    return averaged(study.trials)


def averaged(trials: Iterable[Trial]) -> tuple[Trial, ...]:
    """The same of any trials, such as an earlier job's."""
    groups: dict[Deployment, list[Trial]] = {}
    for trial in trials:
        if trial.measurement is not None:
            groups.setdefault(trial.deployment, []).append(trial)
    return tuple(
        replace(same[-1], outcome=average([t.outcome for t in same if isinstance(t.outcome, Measurement)]))
        for same in groups.values()
    )


def failed_trials(study: Study) -> tuple[Trial, ...]:
    """The newest trial of each deployment that failed and was never measured."""
    measured = {trial.deployment for trial in study.trials if trial.measurement is not None}
    newest = {t.deployment: t for t in study.trials if t.failure is not None and t.deployment not in measured}
    return tuple(newest.values())


def average(measurements: Sequence[Measurement]) -> Measurement:
    """Repeated measurements of one deployment as one: geometric mean, the intervals narrowed together."""
    if len(measurements) == 1:
        return measurements[0]
    count = len(measurements)
    speed = exp(sum(log(m.samples_per_second) for m in measurements) / count)
    error = sum(m.relative_error**2 for m in measurements) ** 0.5 / count
    return replace(
        measurements[-1],
        samples_per_second=speed,
        low=speed * (1.0 - 1.96 * error),
        high=speed * (1.0 + 1.96 * error),
        steps=sum(m.steps for m in measurements),
        samples=sum(m.samples for m in measurements),
    )


@dataclass(frozen=True)
class Exclusions:
    """Deployments that would fail, concluded from those that did."""

    out_of_memory: tuple[Deployment, ...] = ()  # ran out of memory
    failing_types: frozenset[str] = frozenset()  # instance types on which the program has only ever failed
    nodes_unshared: bool = False  # several nodes each did the whole work
    gpus_unshared: bool = False  # so did the ranks of a single node
    needs_gpu: bool = False  # the program runs on no machine without one
    too_many_workers: float = inf  # the job is not suited for so many

    def excludes(self, deployment: Deployment) -> bool:
        """Whether a failure says that this deployment would fail too."""
        if deployment.workers >= self.too_many_workers:
            return True
        if self.needs_gpu and not deployment.offer.instance.gpus:
            return True
        if deployment.offer.instance.name in self.failing_types or self.excludes_sharing(deployment):
            return True
        return any(_at_least_as_full(deployment, full) for full in self.out_of_memory)

    def excludes_sharing(self, deployment: Deployment) -> bool:
        """Whether its ranks would not share the work."""
        several_gpus = self.gpus_unshared and deployment.offer.instance.gpus > 1
        return (self.nodes_unshared and deployment.workers > 1) or several_gpus

    @property
    def empty(self) -> bool:
        """Whether nothing is excluded."""
        several = self.nodes_unshared or self.too_many_workers < inf
        return not (self.out_of_memory or self.failing_types or several or self.needs_gpu)


def exclusions(study: Study) -> Exclusions:
    """What the failures so far teach."""
    failures = failed_trials(study)
    out_of_memory = tuple(t.deployment for t in failures if _reason(t) is FailureKind.OUT_OF_MEMORY)
    worked = {trial.deployment.offer.instance.name for trial in study.trials if trial.measurement is not None}
    unshared = [t.deployment.workers for t in failures if _reason(t) is FailureKind.NOT_SHARED]
    unfit = [t.deployment.workers for t in failures if _reason(t) is FailureKind.UNFIT]
    return Exclusions(
        out_of_memory,
        frozenset(_types_that_only_fail(failures)) - worked,
        nodes_unshared=bool(unshared),
        gpus_unshared=1 in unshared,
        needs_gpu=any(tells_of_gpus(trial) for trial in failures),
        too_many_workers=min(unfit, default=inf),
    )


def tells_of_gpus(trial: Trial) -> bool:
    """Whether the trial shows that the program needs a GPU; one that finds none where there is one fails for itself."""
    return _reason(trial) is FailureKind.NO_GPU and not trial.deployment.offer.instance.gpus


def _types_that_only_fail(failures: Iterable[Trial]) -> Iterable[str]:
    crashes: dict[str, int] = {}
    for trial in failures:
        if _reason(trial) in _PROGRAM_FAILURES:
            name = trial.deployment.offer.instance.name
            crashes[name] = crashes.get(name, 0) + (_reason(trial) is not FailureKind.OUT_OF_MEMORY)
    return (name for name, count in crashes.items() if count >= _CRASHES_THAT_CONVINCE)


def _reason(trial: Trial) -> FailureKind | None:
    return trial.outcome.reason if isinstance(trial.outcome, Failure) else None


def _at_least_as_full(deployment: Deployment, full: Deployment) -> bool:
    """Whether each device of `deployment` holds as large a batch in no more memory than those of `full`."""
    if local_batch(deployment) < local_batch(full):
        return False
    ours, theirs = deployment.offer.instance, full.offer.instance
    if ours.name == theirs.name:
        return True
    return 0.0 < device_memory_gib(ours) <= device_memory_gib(theirs) and bool(ours.gpus) is bool(theirs.gpus)


def local_batch(deployment: Deployment) -> float:
    """Samples of one step on one device; where the program hides its batch size, a share that only compares."""
    devices = deployment.workers * max(1, deployment.offer.instance.gpus)
    return (deployment.batch_size or 1) / (devices * deployment.accumulation)


def device_memory_gib(instance: InstanceType) -> float:
    """Memory of one GPU, or of the whole node where it has none; 0: not known."""
    return instance.gpu_memory_gib if instance.gpus else instance.memory_gib
