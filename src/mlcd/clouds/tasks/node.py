"""The life of a node's program, the same on this computer, on machines elsewhere and in functions:

    restore the newest checkpoint → setup → run, watching what it saves → end in order → collect the outputs

Who calls these steps decides when, and what the end means. It travels: standard library only, Python 3.9 or newer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from mlcd.clouds.checkpoints import Trained
from mlcd.clouds.tasks.copies import Signatures, signatures
from mlcd.clouds.tasks.outputs import collect_outputs
from mlcd.clouds.tasks.processes import end_marked, oom_kills
from mlcd.clouds.tasks.programs import Programs, end_programs
from mlcd.clouds.tasks.snapshots import Snapshots, put_back

# All of mlcd that must travel with this file beside the worker.
NODE_FILES = (
    "errors.py",
    "clouds/__init__.py",
    "clouds/checkpoints.py",
    "clouds/tasks/__init__.py",
    "clouds/tasks/copies.py",
    "clouds/tasks/environment.py",
    "clouds/tasks/formats.py",
    "clouds/tasks/gpus.py",
    "clouds/tasks/meter.py",
    "clouds/tasks/node.py",
    "clouds/tasks/outputs.py",
    "clouds/tasks/processes.py",
    "clouds/tasks/programs.py",
    "clouds/tasks/signals.py",
    "clouds/tasks/snapshots.py",
    "clouds/tasks/sockets.py",
    "core/__init__.py",
    "core/progress.py",
)
FAILED_GRACE_SECONDS = 5.0  # to end, for what still runs once something has failed


def follow(nodes: Sequence[NodePrograms], tick: Callable[[], None]) -> int | None:
    """Wait until all that work have ended well, or one has failed, and give its rank.

    What the first node saves is committed meanwhile. `tick` lets a little time pass, and raises what else ends the programs;
    where none of them works, nothing else does.
    """
    while not (any(node.working for node in nodes) and all(node.worked() for node in nodes)):
        for rank, node in enumerate(nodes):
            if node.failed_code():
                return rank
        nodes[0].look()
        tick()
    return None


def end_nodes(
    nodes: Sequence[NodePrograms],
    marker: Path,
    grace_seconds: float,
    failed: bool,
    pause: Callable[[float], None],
) -> float:
    """SIGTERM, the grace, SIGKILL, also for what has left its family; when all was over."""
    end_programs(nodes, min(grace_seconds, FAILED_GRACE_SECONDS) if failed else grace_seconds, pause)
    end_marked(marker, patience_seconds=5.0)
    return time.time()


class NodePrograms(Programs):
    """The programs of one node, with the working copy that they run in."""

    def __init__(self, folder: Path, log: Path, processors: frozenset[int] = frozenset()) -> None:
        super().__init__(folder, log, processors)
        self.before: Signatures = {}  # of the working copy, before anything ran in it
        self._snapshots: Snapshots | None = None
        self._oom_kills = oom_kills()

    def note_copy(self) -> None:
        """Remember the working copy as it is: what is new or changed later is what the program made."""
        self.before = signatures(self.folder)

    def restore(self, checkpoints: Path, path: str) -> None:
        """Put the newest complete checkpoint, if there is one, to where the program looks for it."""
        newest = put_back(checkpoints, self.folder / path) if path else None
        if newest is not None:
            self.say(f"going on from checkpoint {newest.name}")

    def watch(self, path: str, into: Path, keep: int, trained_at: Callable[[float], Trained], task_id: str) -> None:
        """Commit what the program saves to a folder of its own, from now on; no path: it commits by itself."""
        self._snapshots = None
        if path:
            self._snapshots = Snapshots(
                folder=self.folder / path,
                into=into,
                keep=keep,
                trained_at=trained_at,
                task_id=task_id,
                say=self.say,
                roots=lambda: self.roots,
            )

    def look(self) -> None:
        """Commit a checkpoint if the program has finished saving one; returns at once."""
        if self._snapshots is not None:
            self._snapshots.look()

    def finish_checkpoints(self, in_order: bool, ended_at: float) -> None:
        """Commit the last state that the program saved; `in_order`: it had the time to finish it."""
        if self._snapshots is not None:
            self._snapshots.finish(in_order, ended_at)

    def kernel_killed(self) -> bool | None:
        """Whether the kernel has killed for want of memory since we began; None: it does not say."""
        now = oom_kills()
        return None if now is None or self._oom_kills is None else now != self._oom_kills

    def collect(self, patterns: Sequence[str], into: Path) -> None:
        """Gather what the program hands back."""
        collect_outputs(self.folder, self.before, patterns, into, self.say)
