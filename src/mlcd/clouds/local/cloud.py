"""This computer as a cloud: what is for rent, and what becomes of a task whose runner is gone."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from mlcd.clouds.local.exchange import forget_exchange
from mlcd.clouds.local.files import Spec, State, TaskFiles, copies_folder
from mlcd.clouds.local.hardware import Hardware, find_hardware
from mlcd.clouds.local.offers import make_offers
from mlcd.clouds.local.places import cores_by_rank, gpus_by_rank
from mlcd.clouds.local.preparation import users_environment
from mlcd.clouds.local.settings import LocalSettings
from mlcd.clouds.tasks.cloud import RunnerCloud
from mlcd.clouds.tasks.diagnosis import log_tail
from mlcd.clouds.tasks.files import Files, facts_of, working_folder
from mlcd.clouds.tasks.outcome import Outcome
from mlcd.clouds.tasks.processes import alive, end_marked, marked_tasks
from mlcd.core.clock import Clock, moment
from mlcd.core.job import Job
from mlcd.core.machines import Deployment, Offer
from mlcd.core.study import ProbeTime
from mlcd.core.task import EndCause, Handle, Owned, Task, TaskState, TaskStatus
from mlcd.errors import NoCapacityError
from mlcd.platforms.tools import refuse_missing_tools
from mlcd.settings import Settings

PROGRAM_START_SECONDS = 4.0  # importing a framework and reading the data, until a probe has shown it


class LocalCloud(RunnerCloud[Spec, State]):
    """This computer. See mlcd.clouds.base.Cloud for what it promises."""

    name = "local"
    poll_seconds = 0.2
    life = "mlcd.clouds.local.task:LocalTask"
    files_kind = TaskFiles
    runs_again = False  # the programs die with their runner: nothing is left to take over

    def __init__(self, settings: Settings, clock: Clock | None = None) -> None:
        super().__init__(settings.home, clock)
        self._settings = settings.of(LocalSettings)

    def offers(self) -> Sequence[Offer]:
        """The cores and GPUs of this computer, busy or not: a task waits for its turn, free of charge."""
        return make_offers(find_hardware(self._settings), self._settings, moment(self.clock.now()).date().isoformat())

    def refuse_program(self, job: Job, deployments: Sequence[Deployment]) -> None:
        """What its platform starts has to be on this computer."""
        if deployments:
            refuse_missing_tools(job, users_environment(os.environ))

    def expected_probe(self, measuring_seconds: float) -> ProbeTime:
        """The program's start, unknown as yet, and the measuring."""
        return ProbeTime(PROGRAM_START_SECONDS + measuring_seconds, step_seconds=1.0, nodes_per_step=1)

    def make_spec(self, task: Task, deployment: Deployment) -> Spec:
        """With the cores and GPUs that are for rent."""
        hardware = find_hardware(self._settings)
        gpus = _gpus_for(deployment, hardware)
        return Spec(task, deployment, str(self.home), self.clock.now(), hardware.cores, gpus)

    def refuse(self, deployment: Deployment) -> None:
        """More cores or GPUs than this computer has are not waited for."""
        hardware = find_hardware(self._settings)
        cores, wanted = sum(cores_by_rank(deployment)), sum(gpus_by_rank(deployment))
        gpus = len(_gpus_for(deployment, hardware))
        if cores > len(hardware.cores) or wanted > gpus:
            raise NoCapacityError(
                f"{deployment} needs {cores} cores and {wanted} GPUs; this computer has {len(hardware.cores)} and {gpus} of that kind.",
                "Ask for fewer nodes, or let cores be shared with the setting local.cores.",
            )

    def owned(self) -> Iterable[Owned]:
        """Every task whose runner or processes live."""
        orphans = marked_tasks(self.home / "tasks")
        roots = {files.root for files in self.all_files()} | orphans
        everything = (TaskFiles(root) for root in sorted(roots))
        return [self._owned(files) for files in everything if files.root in orphans or _has_runner(files)]

    def _owned(self, files: TaskFiles) -> Owned:
        gone = Owned(files.id, files.id, "", "processes whose task is gone", self.clock.now())
        return self.owned_task(files) or gone  # its folder is gone, its processes are not

    def _current(self, files: Files[Spec, State]) -> State | None:
        """The state, made LOST where its runner is gone and left no final state; then nothing of it runs on."""
        state = files.read_state()
        if state is None or state.state.ended or alive(state.pid, state.birth):
            return state
        state = files.read_state() or state  # the final state may have come between the two looks
        return state if state.state.ended else _settle(files, state)

    def _without_state(self, files: Files[Spec, State]) -> TaskStatus:
        if files.locked() or files.read_state() is not None:  # taken over between the two looks
            return TaskStatus(TaskState.STARTING)
        why, tail = "its task runner never started", log_tail(files.log)
        return TaskStatus(TaskState.LOST, reason=why, log_tail=tail, cause=EndCause.RUNNER_LOST)

    def _stop_unknown(self, handle: Handle) -> None:
        end_marked(self.files_of(handle).root)


def _settle(files: Files[Spec, State], state: State) -> State:
    end_marked(files.root)
    forget_exchange(files.root)
    why = "its task runner was killed; what was left of it has been ended"
    lost = replace(state, **facts_of(Outcome(EndCause.RUNNER_LOST, why)), ended_at=state.seen_at)
    with suppress(OSError):
        files.write_state(lost)
    spec = files.read_spec()
    if spec is not None:
        shutil.rmtree(copies_folder(working_folder(spec.task, files)), ignore_errors=True)
    return lost


def _has_runner(files: TaskFiles) -> bool:
    state = files.read_state()
    if state is None:
        return files.locked()
    return not state.state.ended and alive(state.pid, state.birth)


def _gpus_for(deployment: Deployment, hardware: Hardware) -> tuple[str, ...]:
    """Of one model, for its numbers tell nothing of another one."""
    models = {offer.instance.gpu_model for offer in deployment.types if offer.instance.gpus}
    return tuple(gpu.id for gpu in hardware.gpus if models == {gpu.model})
