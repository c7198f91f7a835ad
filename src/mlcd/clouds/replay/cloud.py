"""The replayed cloud: offers, tasks and money as recorded, on a virtual clock."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from mlcd.catalog.traces import Workload
from mlcd.clouds.replay.options import ReplayOptions
from mlcd.clouds.replay.state import ReplayClock, ReplayState, StateFile
from mlcd.clouds.replay.task_run import TaskRun, status_at
from mlcd.core.clock import Clock
from mlcd.core.machines import Deployment, Offer
from mlcd.core.study import ProbeTime
from mlcd.core.task import EndCause, Handle, Owned, Task, TaskFolder, TaskKind, TaskState, TaskStatus
from mlcd.core.units import show_rate
from mlcd.errors import NoCapacityError
from mlcd.worker.checkpoints import Facts, begin, commit

_POLL_SECONDS = 30.0
_LONGEST_POLL_SECONDS = 3600.0
_NOTHING = 1e-9  # samples of a task that is started only to end: one of none would go on until it is stopped
_POLL_SHARE = 0.1  # of the time that a training still takes


class ReplayCloud:
    """Answers from recordings. Time passes only on its own clock, so nothing is waited for."""

    name = "replay"

    def __init__(self, workload: Workload, options: ReplayOptions) -> None:
        self.workload = workload
        self.probe_time = options.probe_time
        self.start_seconds: float | None = options.start_seconds
        self.poll_seconds = _even_poll(options.probe_time)
        self.ending_seconds = 0.0
        self._options = options
        self._file = StateFile(options.state)
        self._state = self._file.open()
        self._recorded = {deployment.key: deployment for deployment in workload.deployments}
        self.clock: Clock = ReplayClock(self._file, self._state.now)

    def offers(self) -> Iterable[Offer]:
        """What the recorded deployments are made of."""
        return self.workload.offers

    def expected_probe(self, measuring_seconds: float) -> ProbeTime:
        """The recording's own, whatever part of it is measuring."""
        return self.probe_time

    def deployments(self) -> tuple[Deployment, ...]:
        """Those that were recorded: there is nothing to say of others."""
        return tuple(self._recorded.values())

    def samples_at(self, samples: float) -> Mapping[int, float]:
        """Batch size → samples to train, where `samples` are enough at the batch size that needs least."""
        known = {batch: need for batch, need in self.workload.samples_at.items() if batch is not None}
        return {batch: samples * need / min(known.values()) for batch, need in known.items()}

    def launch(self, task: Task, deployment: Deployment, secrets: Mapping[str, str]) -> Handle:
        """Note that the task runs from now on; the same task.id twice is one task."""
        if deployment.key not in self._recorded:
            raise NoCapacityError(f"{deployment} was not recorded for workload '{self.workload.name}'.")

        def add(state: ReplayState) -> ReplayState:
            run = state.runs.get(task.id) or self._run(task, deployment, state)
            return replace(state, runs={**state.runs, task.id: run})

        self._state = self._file.change(add)
        _write_log(task, self._state.runs[task.id])
        return task.id

    def status(self, handle: Handle) -> TaskStatus:
        """What the recording says of this moment."""
        run = self._find(handle)
        if run is None:
            return TaskStatus(
                TaskState.LOST, reason="the replayed cloud knows no such task", cause=EndCause.RUNNER_LOST
            )
        self._keep_checkpoint(run)
        self.poll_seconds = self._worth_asking()
        return status_at(run, self.clock.now())

    def stop(self, handle: Handle) -> None:
        """End it now; a training leaves a checkpoint."""
        run = self._find(handle)
        if run is None or run.ended(self.clock.now()):
            return
        run = replace(run, stopped_at=self.clock.now())
        self._change(run)
        self._keep_checkpoint(run)

    def owned(self) -> Iterable[Owned]:
        """What has not ended."""
        self._state = self._file.open()
        return [
            Owned(run.task_id, run.task_id, run.job_id, str(run.deployment), run.launched_at, run.deployment)
            for run in self._open_runs()
        ]

    def close(self) -> None:
        """Nothing is held open."""

    def _run(self, task: Task, deployment: Deployment, state: ReplayState) -> TaskRun:
        deployment = self._recorded[deployment.key]
        probing = task.kind is TaskKind.PROBE
        profiling = max(0.0, self.probe_time.seconds(deployment.nodes) - task.measuring_seconds)
        rate = self.workload.throughput(deployment)
        return TaskRun(
            task_id=task.id,
            job_id=task.job_id,
            kind=task.kind,
            deployment=deployment,
            launched_at=self.clock.now(),
            start_seconds=profiling if probing or rate is None else self._options.start_seconds,
            samples_per_second=rate and rate * self._noise(task, deployment, state),
            samples=_NOTHING if task.all_trained else task.samples or self.workload.samples(deployment) or 0.0,
            samples_before=task.samples_before,
            measuring_seconds=task.measuring_seconds,
            max_seconds=task.max_seconds,
            checkpoints=task.checkpoints,
        )

    def _noise(self, task: Task, deployment: Deployment, state: ReplayState) -> float:
        """A factor that depends on the seed, the deployment and how often the job has probed it, on nothing else."""
        if task.kind is not TaskKind.PROBE or not self._options.noise:
            return 1.0
        before = sum(
            run.job_id == task.job_id and run.kind is TaskKind.PROBE and run.deployment.key == deployment.key
            for run in state.runs.values()
        )
        draw = random.Random(f"{self._options.seed}/{deployment.key}/{before}")  # noqa: S311  # not for secrets
        return math.exp(draw.gauss(0.0, self._options.noise))

    def _find(self, handle: Handle) -> TaskRun | None:
        if handle not in self._state.runs:
            self._state = self._file.open()  # another process may have launched it
        return self._state.runs.get(handle)

    def _change(self, run: TaskRun) -> None:
        self._state = self._file.change(lambda state: replace(state, runs={**state.runs, run.task_id: run}))

    def _keep_checkpoint(self, run: TaskRun) -> None:
        """What a training that was stopped has done is not lost: the next attempt goes on from there."""
        end = run.ended(self.clock.now())
        if end is None or end.state is not TaskState.STOPPED or run.checkpoint_kept or not run.checkpoints:
            return
        if run.kind is TaskKind.TRAINING:
            _commit_checkpoint(run, run.samples_before + run.samples_done(end.seconds))
            self._change(replace(run, checkpoint_kept=True))

    def _open_runs(self) -> list[TaskRun]:
        return [run for run in self._state.runs.values() if run.ended(self.clock.now()) is None]

    def _worth_asking(self) -> float:
        """Often while there are probes; of a training that takes a week, less often the longer it still takes."""
        usual = _even_poll(self.probe_time)
        runs = self._open_runs()
        ends = [run.end for run in runs if run.kind is TaskKind.TRAINING]
        if not runs or len(ends) < len(runs) or None in ends:
            return usual
        left = min(run.launched_at + run.end.seconds - self.clock.now() for run in runs if run.end is not None)
        return min(max(usual, left * _POLL_SHARE), _LONGEST_POLL_SECONDS)


def _even_poll(probe_time: ProbeTime) -> float:
    """The longest interval, of 30 s at the most, that has a look fall on the very end of every probe."""
    times = [
        Fraction(seconds).limit_denominator(1000) for seconds in (probe_time.first_seconds, probe_time.step_seconds)
    ]
    parts = math.lcm(*(time.denominator for time in times))
    common = Fraction(math.gcd(*(int(time * parts) for time in times)), parts)
    if not common:
        return _POLL_SECONDS
    return max(1.0, float(common / math.ceil(common / Fraction(_POLL_SECONDS))))


def _write_log(task: Task, run: TaskRun) -> None:
    if not task.folder:
        return
    log = TaskFolder(Path(task.folder)).log()
    log.parent.mkdir(parents=True, exist_ok=True)
    rate = "a failure" if run.samples_per_second is None else show_rate(run.samples_per_second)
    log.write_text(f"Nothing runs: this replays a recording of {run.deployment}, which says {rate}.\n")


def _commit_checkpoint(run: TaskRun, samples: float) -> None:
    folder = begin(Path(run.checkpoints))
    (folder / "replayed.txt").write_text("A recording was replayed; nothing was trained, and there is no model.\n")
    commit(
        folder,
        Facts(samples=samples, steps=int(samples / (run.deployment.batch_size or 1)), task_id=run.task_id),
    )
