"""The life of one task, as its runner lives it.

wait for cores → working copies → setup → run → end what is left → outputs → final state
                  └──────────── billed ──────────────────────┘
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from mlcd.clouds.local.exchange import forget_exchange
from mlcd.clouds.local.files import Spec, State, TaskFiles, copies_folder
from mlcd.clouds.local.places import Places
from mlcd.clouds.local.preparation import LocalNode, prepare
from mlcd.clouds.local.usage import UsageMeter
from mlcd.clouds.tasks.diagnosis import OUT_OF_MEMORY, diagnose
from mlcd.clouds.tasks.life import TaskLife, note_cause
from mlcd.clouds.tasks.node import end_nodes, follow
from mlcd.clouds.tasks.outcome import Ending, Outcome
from mlcd.clouds.tasks.processes import birth, end_marked
from mlcd.clouds.tasks.programs import KILLED, Program
from mlcd.clouds.tasks.progress import Follower
from mlcd.clouds.tasks.recorder import Recorder, disk_is_full
from mlcd.clouds.tasks.watch import Watch
from mlcd.core.task import EndCause, TaskState
from mlcd.errors import MlcdError

TICK_SECONDS = 0.1
FULL_SECONDS = 3.0  # a disk may be full for so long before the task is given up


class LocalTask(TaskLife[Spec, State]):
    """One task, from waiting for cores to the final state."""

    files_kind = TaskFiles
    guarded = True

    def __init__(self, files: TaskFiles, spec: Spec, secrets: Mapping[str, str]) -> None:
        super().__init__(files, spec, secrets)
        self._recorder = Recorder(files, State(os.getpid(), birth(os.getpid())))
        self._recorder.full_seconds = FULL_SECONDS
        self._places = Places(self._home / "places")
        self._watch = Watch(files.stop, (files.root, self._folder.root))
        self._nodes: list[LocalNode] = []

    @staticmethod
    def end_orphans(root: Path) -> None:
        """The nodes, and the memory that they share."""
        end_marked(root, patience_seconds=30.0)
        forget_exchange(root)

    def run(self) -> None:
        """Live through it, whatever happens, and leave the final state."""
        self._recorder.begin()
        self._end(self._live())

    def _steps(self) -> None:
        self._start()
        self._set_up()
        self._work()

    @property
    def _began(self) -> bool:
        return True  # what is wrong with the job is wrong on any cloud

    def _refused(self, error: MlcdError) -> Outcome:
        return replace(super()._refused(error), reason=str(error))

    def _start(self) -> None:
        deployment = self._spec.deployment
        cores = max(1, int(deployment.offer.instance.vcpus)) * deployment.nodes
        gpus = deployment.offer.instance.gpus * deployment.nodes
        taken = self._places.take(self._watch.wait, cores, len(self._spec.cores), gpus, self._spec.gpus)
        self._watch.limit(self._task.max_seconds)
        self._recorder.change(started_at=time.time())
        self._make_folders()
        self._nodes = prepare(self._spec, taken, self._folder, self._files.root, self._secrets, self._watch.check)
        self._nodes[0].note_copy()

    def _set_up(self) -> None:
        self._recorder.change(setup_at=time.time())
        if self._task.setup:
            self._recorder.change(state=TaskState.SETUP)
            for node in self._nodes:
                node.start([Program(self._task.setup, node.programs[0].env)])
            self._follow("setup")

    def _work(self) -> None:
        self._recorder.change(state=TaskState.RUNNING, running_at=time.time())
        self._watch_checkpoints()
        for node in self._nodes:
            node.start(node.programs)
        self._follow("the program")

    def _follow(self, what: str) -> None:
        """Return when all nodes have ended well; raise Ending when one has not, or must not go on."""
        meter = UsageMeter(self._nodes, self._spec.deployment.node_memory_gib)

        def tick() -> None:
            self._watch.check()
            if meter.due():
                self._look(meter)
            self._watch.pause(TICK_SECONDS)

        failed = follow(self._nodes, tick)
        if failed is not None:
            raise Ending(self._diagnose(failed, what))

    def _watch_checkpoints(self) -> None:
        trained_at = Follower(self._spec, self._folder, self._recorder.state.started_at or 0.0).trained_at
        task, into = self._task, self._checkpoints
        self._nodes[0].watch(task.checkpoint_path, into, task.checkpoint_keep, trained_at, task.id)

    def _diagnose(self, rank: int, what: str) -> Outcome:
        node = self._nodes[rank]
        found = diagnose(node.failed_code() or 0, rank, node.log, what, node.kernel_killed())
        if disk_is_full(self._folder.root):
            full = f"no space left on the disk that holds {self._folder.root}"
            return replace(found, cause=EndCause.DISK_FULL, reason=full)
        return found

    def _look(self, meter: UsageMeter) -> None:
        greedy = meter.sample()
        self._recorder.beat(usage=meter.usage)
        if greedy is not None:
            node = self._nodes[greedy]
            share_gib = self._spec.deployment.node_memory_gib
            node.signal(signal.SIGKILL)
            node.say(
                f"ended: it used {meter.usage.peak_memory_gib:.2f} GiB of memory, its share is {share_gib:.2f} GiB"
            )
            raise Ending(Outcome(EndCause.OUT_OF_MEMORY, OUT_OF_MEMORY, KILLED, greedy))

    def _end(self, outcome: Outcome) -> None:
        failed, grace = outcome.state is not TaskState.STOPPED, self._task.grace_seconds
        ended_at = end_nodes(self._nodes, self._files.root, grace, failed, self._watch.pause)
        if self._spec.deployment.nodes > 1:
            forget_exchange(self._files.root)
        self._places.release()
        problem = self._hand_over(outcome, ended_at)
        if problem is not None and outcome.cause is EndCause.COMPLETED:
            outcome = replace(problem, exit_code=0)
        self._record_end(outcome, ended_at)

    def _hand_over(self, outcome: Outcome, ended_at: float) -> Outcome | None:
        """Keep what the program made, then clear up; why that was not possible, if it was not."""
        with suppress(OSError):
            self._recorder.change()  # the end may take a while: a sign of life
        try:
            for first in self._nodes[:1]:
                first.finish_checkpoints(self._ended_in_order(outcome), ended_at)
                first.collect(self._task.outputs, self._folder.outputs)
        except OSError as error:
            note_cause()
            failed = self._failed(error)
            return replace(failed, reason=f"{failed.reason}; its results are in {copies_folder(self._folder)}")
        shutil.rmtree(copies_folder(self._folder), ignore_errors=True)
        return None

    def _ended_in_order(self, outcome: Outcome) -> bool:
        """Whether the program had the time to finish what it was writing: no signal and no error ended it."""
        well = outcome.state in (TaskState.SUCCEEDED, TaskState.STOPPED)
        return well and all(node.in_order for node in self._nodes)

    def _record_end(self, outcome: Outcome, ended_at: float) -> None:
        billed = self._recorder.state.started_at is not None
        outcome = outcome.with_codes(tuple(node.exit_code() for node in self._nodes))
        self._recorder.finish(outcome, ended_at if billed else time.time())
