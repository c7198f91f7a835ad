"""The life of a node, as its agent lives it.

    SETUP → READY → RUNNING → ENDED
            waits for `go`

state.json, written at every change and as a sign of life in between:

    {"phase": "running", "beat": 1763260000.2, "why": "", "codes": [null], "ended_at": null, "out_of_memory": false,
     "disk_full": false, "notice": "", "serves": false, "usage": {"cpu_share": 0.9, …}, "log": 1234,
     "progress": {"rank-0.jsonl": 567}, "checkpoints": ["000003-1200"], "snapshots": [], "outputs": {"model.pt": 4711}}

    serves       whether its processes do nothing but serve those of other nodes, and go on until they are ended
    why          a NodeEnd, once it has ended
    codes        exit codes of the processes; of `setup`, where that failed
    log …        bytes written so far; what is committed; what is handed back, once it has ended
"""

from __future__ import annotations

import json
import math
import subprocess
import time
import traceback
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mlcd.clouds.checkpoints import Trained
from mlcd.clouds.remote.agent.environment import agent_environment
from mlcd.clouds.remote.agent.limits import Ended, Limits, NodeEnd
from mlcd.clouds.remote.agent.meter import MachineMeter
from mlcd.clouds.tasks.node import NodePrograms, end_nodes, follow
from mlcd.clouds.tasks.programs import Program
from mlcd.worker.checkpoints import complete_checkpoints
from mlcd.worker.trees import files_inside

TICK_SECONDS = 0.2
BEAT_SECONDS = 0.8
_FAILURES = (NodeEnd.EXIT, NodeEnd.SETUP, NodeEnd.DISK_FULL, NodeEnd.GONE)  # unless it was asked to end


class Agent:
    """One node of a task."""

    def __init__(self, root: Path, spec: dict[str, Any]) -> None:
        self._root = root
        self._spec = spec
        self._control = Path(spec["control"])
        self._env = agent_environment(root, spec)
        self._node = NodePrograms(root / "copy", root / "log")
        self._limits = Limits(root, spec)
        self._meter = MachineMeter(spec)
        self._beat_at = -math.inf
        self._state: dict[str, Any] = {"phase": "setup", "why": "", "codes": [], "ended_at": None}
        self._write()

    def run(self) -> None:
        """Live through it, whatever happens, and stay to tell of it until the machine goes."""
        ended = self._live()
        self._end(ended)
        self._watch_lease()

    def leave(self) -> None:
        """Take note that the machine goes: the program ends in order."""
        self._limits.leave()

    def _live(self) -> Ended:
        try:
            self._set_up()
            self._wait_for_go()
            self._work()
        except Ended as ended:
            return ended
        except Exception:  # whatever it is, the program must be ended and the cause told
            traceback.print_exc()
            self._node.say(f"mlcd's agent could not go on: {traceback.format_exc(limit=1)}")
            return Ended(NodeEnd.GONE)
        return Ended(NodeEnd.EXIT)

    def _set_up(self) -> None:
        self._node.note_copy()
        if self._spec["setup"]:
            env = {**self._env, **self._spec["processes"][0]["env"]}
            self._node.start([Program(self._spec["setup"], env)])
            self._follow(NodeEnd.SETUP)

    def _wait_for_go(self) -> None:
        self._change(phase="ready")
        while not (self._control / "go").exists():
            self._tick()

    def _work(self) -> None:
        self._restore()
        processes = [
            Program(one["command"], {**self._env, **one["env"]}, one["serves"]) for one in self._spec["processes"]
        ]
        self._node.start(processes)
        self._change(phase="running", running_at=time.time(), serves=self._node.only_serve)
        self._follow(NodeEnd.EXIT)

    def _restore(self) -> None:
        """Put the newest checkpoint to where the program looks for it, and watch what it saves there."""
        path, into = self._spec["checkpoint_path"], self._root / "snapshots"
        self._node.restore(self._root / "checkpoints", path)
        # How much was trained by then is known at home, where all ranks report: here a snapshot is of a moment.
        self._node.watch(path, into, 2, Trained, self._spec["task"])

    def _follow(self, what: NodeEnd) -> None:
        """Return when all processes have ended well; raise Ended when one has not, or must not go on."""
        failed = follow([self._node], self._tick) is not None
        if self._limits.told_to_go:  # the program was asked to end, too, and may have ended well
            raise Ended(NodeEnd.TAKEN)
        if failed:
            raise Ended(what)

    def _tick(self) -> None:
        self._limits.check()
        self._beat()
        time.sleep(TICK_SECONDS)

    def _end(self, ended: Ended) -> None:
        """SIGTERM, the grace, SIGKILL; then keep what it made."""
        failed = ended.why in _FAILURES
        self._state["notice"] = self._limits.notice
        grace = self._spec["grace_seconds"] if failed else self._limits.grace(self._spec["grace_seconds"])
        ended_at = end_nodes([self._node], self._root, grace, failed, self._pause)
        self._keep(ended_at)
        self._change(
            phase="ended",
            why=ended.why,
            codes=self._node.codes(),
            ended_at=ended_at,
            out_of_memory=bool(self._node.kernel_killed()),
            disk_full=self._limits.disk_full(),
        )

    def _keep(self, ended_at: float) -> None:
        """Commit the last state that the program saved, and gather its outputs."""
        try:
            self._node.finish_checkpoints(self._node.in_order, ended_at)
            if self._spec["rank"] == 0:
                self._node.collect(self._spec["outputs"], self._root / "outputs")
        except OSError as error:
            self._node.say(f"what the program made could not be kept: {error}")

    def _pause(self, seconds: float) -> None:
        self._beat()
        time.sleep(seconds)

    def _watch_lease(self) -> None:
        """The program is over; the machine may wait for the next one, but not for ever, and not once it was told to go."""
        while self._root.is_dir() and not self._limits.lease_over() and not self._limits.told_to_go:
            self._beat()
            time.sleep(BEAT_SECONDS)
        if self._limits.lease_over() and self._spec["power_off"]:
            subprocess.run(["bash", "-c", self._spec["power_off"]], check=False)

    def _change(self, **facts: Any) -> None:
        self._state.update(facts)
        self._write()

    def _beat(self) -> None:
        if time.monotonic() - self._beat_at > BEAT_SECONDS:
            self._state["usage"] = asdict(self._meter.sample(self._node.family()))
            self._state["notice"] = self._limits.notice
            self._write()

    def _write(self) -> None:
        """Tell how things stand."""
        self._beat_at = time.monotonic()
        state = {
            **self._state,
            "beat": time.time(),
            **_inventory(self._root, self._state["phase"] == "ended"),
        }
        with suppress(OSError):
            draft = self._control / ".state.json"
            draft.write_text(json.dumps(state))
            draft.replace(self._control / "state.json")


def _inventory(root: Path, ended: bool) -> dict[str, Any]:
    """What there is to download: sizes of what grows, names of what is committed and, once all is over, what is handed back."""
    outputs = root / "outputs"
    files = list(files_inside(outputs)) if ended else []
    return {
        "log": _size(root / "log"),
        "progress": {path.name: _size(path) for path in sorted((root / "progress").glob("rank-*.jsonl"))},
        "checkpoints": [one.path.name for one in complete_checkpoints(root / "checkpoints")],
        "snapshots": [one.path.name for one in complete_checkpoints(root / "snapshots")],
        "outputs": {str(path.relative_to(outputs)): _size(path) for path in files},
    }


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
