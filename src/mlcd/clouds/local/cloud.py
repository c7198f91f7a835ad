"""Launches, follows and stops tasks on this computer, from any process, by the folders that they leave."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from mlcd.clouds.local.exchange import forget_exchange
from mlcd.clouds.local.files import Spec, State, TaskFiles, copies_folder, task_files
from mlcd.clouds.local.hardware import Hardware, find_hardware
from mlcd.clouds.local.launching import start_supervisor, take_lock
from mlcd.clouds.local.offers import make_offers
from mlcd.clouds.local.settings import LocalSettings
from mlcd.clouds.tasks.diagnosis import log_tail
from mlcd.clouds.tasks.files import working_folder
from mlcd.clouds.tasks.processes import alive, end_marked, marked_tasks
from mlcd.clouds.tasks.telling import Narrator
from mlcd.core.clock import Clock, SystemClock, moment
from mlcd.core.machines import Deployment, Offer
from mlcd.core.study import ProbeTime
from mlcd.core.task import Charge, Handle, Owned, Task, TaskState, TaskStatus
from mlcd.errors import CloudError, NoCapacityError
from mlcd.settings import Settings

PROGRAM_START_SECONDS = 4.0  # importing a framework and reading the data, until a probe has shown it


class LocalCloud:
    """This computer. See mlcd.clouds.base.Cloud for what it promises."""

    name = "local"
    poll_seconds = 0.2
    ending_seconds = 0.0
    start_seconds: float | None = None  # that depends on the program alone

    def __init__(self, settings: Settings, clock: Clock | None = None) -> None:
        self.clock: Clock = clock or SystemClock()
        self._settings = settings.of(LocalSettings)
        self.home = settings.home.absolute() / "local"
        self._narrator = Narrator()

    def offers(self) -> Sequence[Offer]:
        """The cores and GPUs of this computer, busy or not: a task waits for its turn, free of charge."""
        return make_offers(
            find_hardware(self._settings), self._settings, moment(self.clock.now()).date().isoformat()
        )

    def expected_probe(self, measuring_seconds: float) -> ProbeTime:
        """The program's start, unknown as yet, and the measuring."""
        return ProbeTime(PROGRAM_START_SECONDS + measuring_seconds, step_seconds=1.0, nodes_per_step=1)

    def launch(self, task: Task, deployment: Deployment, secrets: Mapping[str, str]) -> Handle:
        """Start a supervisor for the task, unless it ever had one."""
        spec = self._spec(task, deployment)
        files = task_files(self.home, task.id)
        try:
            files.root.mkdir(parents=True, exist_ok=True)
            working_folder(task, files).root.mkdir(parents=True, exist_ok=True)
            lock = take_lock(files)
            if lock is not None:
                start_supervisor(files, spec, secrets, lock)
        except OSError as error:
            raise CloudError(
                f"Task {task.id} cannot be started on this computer: {error}", "Is the disk full?"
            ) from error
        return task.id

    def status(self, handle: Handle) -> TaskStatus:
        """What the supervisor wrote last; LOST when it is gone without last words."""
        files = task_files(self.home, handle)
        spec = self._narrator.asked(files)
        if spec is None:
            return TaskStatus(TaskState.LOST, reason="nothing is known of it on this computer")
        state = _current(files)
        if state is None:
            return _not_taken_over(files)
        return self._tell(files, spec, state)

    def stop(self, handle: Handle) -> None:
        """Ask the supervisor to end it; where there is none, end what is left of it."""
        files = task_files(self.home, handle)
        state = files.read_state()
        if not files.root.is_dir() or (state is not None and state.state.ended):
            return
        with suppress(OSError):  # a full disk: the signal says the same
            files.stop.touch()
        if state is not None and alive(state.pid, state.birth):
            with suppress(ProcessLookupError):
                os.kill(state.pid, signal.SIGTERM)
        else:
            _current(files)

    def owned(self) -> Iterable[Owned]:
        """Every task whose supervisor or processes live."""
        tasks = self.home / "tasks"
        folders = set(tasks.iterdir()) if tasks.is_dir() else set()
        orphans = marked_tasks(tasks)
        everything = (TaskFiles(folder) for folder in sorted(folders | orphans))
        return [self._owned(files) for files in everything if files.root in orphans or _looked_after(files)]

    def close(self) -> None:
        """Nothing to let go of; what runs goes on."""

    def _spec(self, task: Task, deployment: Deployment) -> Spec:
        hardware = find_hardware(self._settings)
        gpus = tuple(gpu.id for gpu in hardware.gpus if gpu.model == deployment.offer.instance.gpu_model)
        _check_capacity(deployment, hardware, len(gpus))
        return Spec(task, deployment, str(self.home), hardware.cores, gpus, self.clock.now())

    def _tell(self, files: TaskFiles, spec: Spec, state: State) -> TaskStatus:
        charges = self._charges(spec.deployment, state)
        return self._narrator.tell(spec, working_folder(spec.task, files), state, charges)

    def _charges(self, deployment: Deployment, state: State) -> tuple[Charge, ...]:
        """One line: all nodes from the moment that they had their cores, by the second."""
        if state.started_at is None:
            return ()
        end = state.ended_at if state.ended_at is not None else self.clock.now()
        seconds = max(0.0, end - state.started_at)
        return (
            Charge(
                f"{deployment.nodes} × {deployment.offer.name}{deployment.serving}",
                seconds,
                deployment.usd(seconds),
            ),
        )

    def _owned(self, files: TaskFiles) -> Owned:
        spec, state = self._narrator.asked(files), files.read_state()
        if spec is None:  # its folder is gone, its processes are not
            return Owned(files.id, files.id, "", "processes whose task is gone", self.clock.now())
        since = state.started_at if state is not None and state.started_at is not None else spec.launched_at
        return Owned(files.id, spec.task.id, spec.task.job_id, str(spec.deployment), since, spec.deployment)


def _current(files: TaskFiles) -> State | None:
    """The state, made LOST where its supervisor is gone without last words; then nothing of it runs on."""
    state = files.read_state()
    if state is None or state.state.ended or alive(state.pid, state.birth):
        return state
    state = files.read_state() or state  # the last words may have come between the two looks
    return state if state.state.ended else _settle(files, state)


def _settle(files: TaskFiles, state: State) -> State:
    end_marked(files.root)
    forget_exchange(files.root)
    lost = replace(
        state,
        state=TaskState.LOST,
        ended_at=state.seen_at,
        reason="its supervisor was killed; what was left of it has been ended",
    )
    with suppress(OSError):
        files.write_state(lost)
    spec = files.read_spec()
    if spec is not None:
        shutil.rmtree(copies_folder(working_folder(spec.task, files)), ignore_errors=True)
    return lost


def _not_taken_over(files: TaskFiles) -> TaskStatus:
    if files.locked():
        return TaskStatus(TaskState.STARTING)
    if files.read_state() is not None:
        return TaskStatus(TaskState.STARTING)  # taken over between the two looks
    return TaskStatus(TaskState.LOST, reason="its supervisor never started", log_tail=log_tail(files.log))


def _looked_after(files: TaskFiles) -> bool:
    state = files.read_state()
    if state is None:
        return files.locked()
    return not state.state.ended and alive(state.pid, state.birth)


def _check_capacity(deployment: Deployment, hardware: Hardware, gpus: int) -> None:
    instance = deployment.offer.instance
    cores = max(1, int(instance.vcpus)) * deployment.nodes
    if cores > len(hardware.cores) or instance.gpus * deployment.nodes > gpus:
        raise NoCapacityError(
            f"{deployment} needs {cores} cores and {instance.gpus * deployment.nodes} GPUs; "
            f"this computer has {len(hardware.cores)} and {gpus} of that kind.",
            "Ask for fewer nodes, or let cores be shared with the setting local.cores.",
        )
