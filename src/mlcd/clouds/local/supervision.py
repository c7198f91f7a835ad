"""The life of one task, as its supervisor lives it.

wait for cores → working copies → setup → run → end what is left → outputs → last words
                  └──────────── billed ──────────────────────┘
"""

from __future__ import annotations

import errno
import shutil
import signal
import time
import traceback
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from mlcd.clouds.local.exchange import forget_exchange
from mlcd.clouds.local.files import Spec, TaskFiles, copies_folder
from mlcd.clouds.local.nodes import LocalNode, end_nodes
from mlcd.clouds.local.places import Places
from mlcd.clouds.local.preparation import Prepared, prepare
from mlcd.clouds.local.recorder import FULL, Recorder, disk_is_full
from mlcd.clouds.local.usage import UsageMeter
from mlcd.clouds.tasks.copies import Signatures, signatures
from mlcd.clouds.tasks.diagnosis import OUT_OF_MEMORY, diagnose, shown
from mlcd.clouds.tasks.environment import checkpoint_folder
from mlcd.clouds.tasks.files import working_folder
from mlcd.clouds.tasks.following import Follower
from mlcd.clouds.tasks.outputs import collect_outputs
from mlcd.clouds.tasks.processes import end_marked, oom_kills
from mlcd.clouds.tasks.snapshots import Snapshots
from mlcd.clouds.tasks.watch import Ending, Watch
from mlcd.core.task import TaskState
from mlcd.errors import MlcdError
from mlcd.platforms.base import Process

TICK_SECONDS = 0.1
FAILED_GRACE_SECONDS = 5.0  # for the other nodes, once one has failed
_SIGNALLED = 128  # exit codes from here on mean a signal
_KILLED = 137


class Supervision:
    """One task, from waiting for cores to the last words."""

    def __init__(self, files: TaskFiles, spec: Spec, secrets: Mapping[str, str]) -> None:
        self._files = files
        self._spec = spec
        self._task = spec.task
        self._secrets = secrets
        self._folder = working_folder(spec.task, files)
        self._recorder = Recorder(files)
        self._places = Places(Path(spec.home) / "places")
        self._watch = Watch(files.stop, (files.root, self._folder.root))
        self._ready: list[Prepared] = []
        self._before: Signatures = {}
        self._snapshots: Snapshots | None = None
        self._oom_kills = oom_kills()

    def run(self) -> None:
        """Live through it, whatever happens, and leave the last words."""
        self._recorder.begin()
        ending = self._live()
        self._end(ending)

    def _live(self) -> Ending:
        try:
            self._start()
            self._set_up()
            self._work()
        except Ending as ending:
            return ending
        except MlcdError as error:
            return Ending(TaskState.FAILED, str(error))
        except OSError as error:
            _note_cause()
            return Ending(TaskState.FAILED, self._in_words(error))
        except Exception as error:  # whatever it is, the nodes must be ended and the cause told
            _note_cause()
            return Ending(TaskState.FAILED, f"mlcd's own error: {error!r}; see {self._files.log}")
        return Ending(TaskState.SUCCEEDED, exit_code=0)

    def _start(self) -> None:
        deployment = self._spec.deployment
        cores = max(1, int(deployment.offer.instance.vcpus)) * deployment.nodes
        gpus = deployment.offer.instance.gpus * deployment.nodes
        taken = self._places.take(self._watch.wait, cores, len(self._spec.cores), gpus, self._spec.gpus)
        self._watch.limit(self._task.max_seconds)
        self._recorder.change(started_at=time.time())
        self._ready = prepare(
            self._spec, taken, self._folder, self._files.root, self._secrets, self._watch.check
        )
        self._before = signatures(self._nodes[0].copy)

    def _set_up(self) -> None:
        self._recorder.change(setup_at=time.time())
        if self._task.setup:
            self._recorder.change(state=TaskState.SETUP)
            for prepared in self._ready:
                prepared.node.start([Process(self._task.setup, prepared.processes[0].env)])
            self._follow("setup")

    def _work(self) -> None:
        self._recorder.change(state=TaskState.RUNNING, running_at=time.time())
        self._snapshots = self._watch_checkpoints()
        for prepared in self._ready:
            prepared.node.start(prepared.processes)
        self._follow("the program")

    def _follow(self, what: str) -> None:
        """Return when all nodes have ended well; raise Ending when one has not, or must not go on."""
        meter = UsageMeter(self._nodes, self._spec.deployment.offer.instance.memory_gib)
        while not self._all_done(what):
            self._watch.check()
            if meter.due():
                self._look(meter)
            if self._snapshots is not None:
                self._snapshots.look()
            self._watch.pause(TICK_SECONDS)

    def _watch_checkpoints(self) -> Snapshots | None:
        started_at = self._recorder.state.started_at
        if not self._task.checkpoint_path or started_at is None:
            return None
        node = self._nodes[0]
        return Snapshots(
            folder=node.copy / self._task.checkpoint_path,
            into=checkpoint_folder(self._task, self._folder),
            keep=self._task.checkpoint_keep,
            trained_at=Follower(self._spec, self._folder, started_at).trained_at,
            task_id=self._task.id,
            say=node.say,
            roots=lambda: node.roots,
        )

    def _all_done(self, what: str) -> bool:
        codes = [node.exit_code() for node in self._nodes]
        if all(code == 0 for code in codes):
            return True
        for rank, code in enumerate(codes):
            if failed := code or self._nodes[rank].server_code():
                raise self._diagnose(failed, rank, what)
        return False

    def _diagnose(self, code: int, rank: int, what: str) -> Ending:
        now = oom_kills()
        known = now is not None and self._oom_kills is not None
        ending = diagnose(code, rank, self._nodes[rank].log, what, now != self._oom_kills if known else None)
        if disk_is_full(self._folder.root):
            ending.reason = f"no space left on the disk that holds {self._folder.root}"
        return ending

    def _look(self, meter: UsageMeter) -> None:
        greedy = meter.sample()
        self._recorder.beat(meter.usage)
        if greedy is not None:
            node = self._nodes[greedy]
            share_gib = self._spec.deployment.offer.instance.memory_gib
            node.signal(signal.SIGKILL)
            node.say(
                f"ended: it used {meter.usage.peak_memory_gib:.2f} GiB of memory, its share is {share_gib:.2f} GiB"
            )
            raise Ending(TaskState.FAILED, OUT_OF_MEMORY, _KILLED, greedy)

    def _end(self, ending: Ending) -> None:
        grace = self._task.grace_seconds
        if ending.state is not TaskState.STOPPED:
            grace = min(grace, FAILED_GRACE_SECONDS)
        end_nodes(self._nodes, grace, self._watch.pause)
        end_marked(self._files.root, patience_seconds=5.0)
        if self._spec.deployment.nodes > 1:
            forget_exchange(self._files.root)
        self._places.release()
        ended_at = time.time()
        problem = self._hand_over(ending, ended_at)
        if problem and ending.state is TaskState.SUCCEEDED:
            ending = Ending(TaskState.FAILED, problem, exit_code=0)
        self._last_words(ending, ended_at)

    def _hand_over(self, ending: Ending, ended_at: float) -> str:
        """Keep what the program made, then clear up; why that was not possible, if it was not."""
        with suppress(OSError):
            self._recorder.change()  # the end may take a while: a sign of life
        try:
            if self._snapshots is not None:
                self._snapshots.finish(self._ended_in_order(ending), ended_at)
            if self._ready:
                first, into = self._nodes[0], self._folder.outputs
                collect_outputs(first.copy, self._before, self._task.outputs, into, first.say)
        except OSError as error:
            _note_cause()
            return f"{self._in_words(error)}; what it made is in {copies_folder(self._folder)}"
        shutil.rmtree(copies_folder(self._folder), ignore_errors=True)
        return ""

    def _ended_in_order(self, ending: Ending) -> bool:
        """Whether the program had the time to finish what it was writing: no signal and no error ended it."""
        codes = [node.exit_code() for node in self._nodes]
        well = ending.state in (TaskState.SUCCEEDED, TaskState.STOPPED)
        return well and all(code is not None and 0 <= code < _SIGNALLED for code in codes)

    def _last_words(self, ending: Ending, ended_at: float) -> None:
        codes = tuple(shown(node.exit_code()) for node in self._nodes)
        billed = self._recorder.state.started_at is not None
        self._recorder.finish(
            state=ending.state,
            reason=ending.reason,
            exit_code=ending.exit_code if ending.exit_code is not None else next(iter(codes), None),
            exit_codes=codes,
            failed_node=ending.node,
            ended_at=ended_at if billed else time.time(),
        )

    def _in_words(self, error: OSError) -> str:
        if error.errno in FULL:
            return f"no space left on the disk that holds {self._folder.root}"
        if error.errno == errno.E2BIG:
            return "the environment or the command is too long for this system"
        return f"mlcd could not go on: {error}"

    @property
    def _nodes(self) -> list[LocalNode]:
        return [prepared.node for prepared in self._ready]


def _note_cause() -> None:
    """Leave the traceback in the supervisor's log; a full disk may refuse it, and that must not matter."""
    with suppress(OSError):
        traceback.print_exc()
