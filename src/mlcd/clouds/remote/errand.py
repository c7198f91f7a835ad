"""The life of one task, as its courier lives it.

machines → reachable → code and agents → setup everywhere → run → end → bring home → give back → last words
└──────────────────────────────── billed ─────────────────────────────────────────┘

Each step looks first at what there is, so that a courier that takes over from one that was killed goes on where it was.
"""

from __future__ import annotations

import os
import random
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from mlcd.clouds.local.following import Follower
from mlcd.clouds.local.watch import Ending
from mlcd.clouds.remote.base import Machine, Machines
from mlcd.clouds.remote.bringing import Bringer, bring_outputs
from mlcd.clouds.remote.files import Spec, State, TaskFiles, working_folder
from mlcd.clouds.remote.keeping import claim, keep, unclaimed
from mlcd.clouds.remote.node import RemoteNode
from mlcd.clouds.remote.orders import make_orders
from mlcd.clouds.remote.sending import make_parcels
from mlcd.clouds.remote.verdict import Roll, verdict
from mlcd.core.progress import Usage
from mlcd.core.task import TaskKind, TaskState
from mlcd.errors import CloudError, MlcdError, NoCapacityError, UserError

TICK_SECONDS = 0.2
BEAT_SECONDS = 0.5
ASK_SECONDS = 3.0  # how often the seller is asked about a machine that does not answer
FAILED_GRACE_SECONDS = 5.0  # for the other nodes, once one has failed or is lost
END_SECONDS = 20.0  # beyond the grace, for a program to be ended
_PORTS = range(20000, 32000)


class Errand:
    """One task, from renting the machines to the last words."""

    def __init__(self, files: TaskFiles, spec: Spec) -> None:
        self._files = files
        self._spec = spec
        self._task = spec.task
        self._folder = working_folder(spec.task, files)
        self._home = Path(spec.home)
        self._state = files.read_state() or State()
        self._machines: Machines = _load(spec.seller)(self._home, spec.options, files)
        self._nodes: list[RemoteNode] = []
        self._bringer: Bringer | None = None
        self._beat_at = 0.0
        self._asked_at = 0.0

    def run(self) -> None:
        """Look after the task, whatever happens, and leave the last words."""
        self._change(couriers=self._state.couriers + 1)
        if not self._state.state.ended:
            self._end(self._live())
        self._mind_kept()
        os._exit(0)  # connections to machines that are gone must not hold us up

    # ---------------------------------------------------------------------------------------------- living

    def _live(self) -> Ending:
        try:
            self._check()
            self._acquire()
            self._connect()
            if not self._state.agents:
                self._prepare()
            self._set_up()
            self._follow()
        except Ending as ending:
            return ending
        except MlcdError as error:
            return self._refusal(error)
        except OSError as error:
            traceback.print_exc()
            return Ending(TaskState.FAILED, f"mlcd could not go on: {error}")
        except Exception as error:  # whatever it is, the machines must be given back and the cause told
            traceback.print_exc()
            return Ending(TaskState.FAILED, f"mlcd's own error: {error!r}; see {self._files.log}")
        return Ending(TaskState.SUCCEEDED, exit_code=0)

    def _refusal(self, error: MlcdError) -> Ending:
        """What the seller or a machine refused; launch tells it, if it still waits."""
        kind = "no capacity" if isinstance(error, NoCapacityError) else ""
        kind = kind or ("user" if isinstance(error, UserError) else "cloud")
        self._change(refused=kind if not self._state.machines else "", hint=error.hint)
        prefix = "no capacity: " if kind == "no capacity" else ""
        return Ending(TaskState.FAILED, prefix + error.message)

    def _acquire(self) -> None:
        """Rent the machines, those that wait for this job first."""
        if self._state.machines:
            return
        task, deployment = self._task, self._spec.deployment
        had = claim(self._home, task.job_id, deployment, self._files.root / "claimed")
        had = [replace(machine, billed_from=time.time()) for machine in had]
        self._machines.adopt(had, task.id)
        try:
            machines = self._machines.acquire(task.id, task.job_id, deployment, had)
        except MlcdError:
            self._machines.release(had)
            raise
        started_at = min(machine.billed_from for machine in machines)
        self._change(machines=tuple(machines), started_at=started_at)

    def _connect(self) -> None:
        """Wait until all machines have addresses, and know the way to each."""
        while not all(machine.host for machine in self._state.machines):
            self._check()
            self._change(machines=tuple(self._machines.locate(self._state.machines)))
            time.sleep(TICK_SECONDS)
        self._nodes = [
            RemoteNode(
                rank,
                machine,
                self._machines.reach(machine),
                self._files.root.name,
                self._machines.control,
                self._folder,
            )
            for rank, machine in enumerate(self._state.machines)
        ]
        for place in (
            self._folder.log().parent,
            self._folder.progress,
            self._folder.outputs,
            self._checkpoints,
        ):
            place.mkdir(parents=True, exist_ok=True)

    def _prepare(self) -> None:
        """Send everything and start the agents, on all machines side by side."""
        with ThreadPoolExecutor(1) as packer:
            packing = packer.submit(
                make_parcels,
                self._task,
                self._checkpoints,
                self._home.parent.resolve(),
                self._files.root / "out",
            )
            self._each(lambda node: node.wait_until_reachable(self._check_lost))
            parcels = packing.result()
        self._each(lambda node: node.renew(time.time() + self._machines.lease_seconds))
        self._each(RemoteNode.clear)
        self._each(lambda node: node.send(parcels))
        self._change(setup_at=time.time(), state=TaskState.SETUP)
        orders = self._orders()
        self._each(lambda node: node.start(orders[node.rank], self._machines.python))
        self._change(agents=True)
        self._files.forget_secrets()

    def _orders(self) -> list[dict[str, Any]]:
        started_at = self._state.started_at or time.time()
        left = None
        if self._task.max_seconds is not None:
            left = max(0.0, self._task.max_seconds - (time.time() - started_at))
        port = random.choice(_PORTS)  # noqa: S311  two tasks must not choose alike, that is all
        return make_orders(self._spec, self._machines, self._nodes, self._files.read_secrets(), left, port)

    def _set_up(self) -> None:
        """Wait until setup is done everywhere, then let the program start everywhere."""
        for node in self._nodes:
            node.listen()
        while not all(node.agent.get("phase") in ("ready", "running", "ended") for node in self._nodes):
            self._tick()
        self._each(RemoteNode.go)
        self._change(state=TaskState.RUNNING, running_at=self._state.running_at or time.time())

    def _follow(self) -> None:
        """Return when all nodes have ended well; raise Ending when one has not, or must not go on."""
        self._bringer = self._make_bringer()
        self._bringer.start()
        while not all(
            node.ended and node.agent["why"] == "exit" and not any(node.agent["codes"])
            for node in self._nodes
        ):
            self._tick()

    def _tick(self) -> None:
        """Look once at everything, and let a little time pass."""
        self._check()
        ending = verdict(self._roll())
        if ending is not None:
            raise ending
        self._ask_about_silent()
        self._beat()
        time.sleep(TICK_SECONDS)

    def _roll(self) -> Roll:
        return Roll(
            [node.agent for node in self._nodes],
            [node.silent_seconds for node in self._nodes],
            [self._folder.log(node.rank) for node in self._nodes],
        )

    def _check(self) -> None:
        """Raise Ending when the task must end."""
        if self._files.stop.exists():
            raise Ending(TaskState.STOPPED, "stopped")
        started_at, limit = self._state.started_at, self._task.max_seconds
        if limit is not None and started_at is not None and time.time() > started_at + limit:
            raise Ending(TaskState.STOPPED, "time limit")
        for folder in (self._files.root, self._folder.root):
            if not folder.is_dir():
                raise Ending(TaskState.LOST, f"its folder {folder} was removed")

    def _check_lost(self) -> None:
        """While a machine boots: end when the task must, or when the machine is gone."""
        self._check()
        self._ask(self._nodes)

    def _ask_about_silent(self) -> None:
        """A machine that does not answer is lost when its seller says so, or after a while."""
        silent = [node for node in self._nodes if node.silent_seconds > ASK_SECONDS and not node.ended]
        if not silent:
            return
        known = self._ask(silent)
        late = [node for node in silent if node.silent_seconds > self._machines.lost_seconds]
        if late and known:
            raise Ending(TaskState.LOST, f"node {late[0].rank} does not answer", node=late[0].rank)

    def _ask(self, nodes: list[RemoteNode]) -> bool:
        """Raise Ending where one of them is gone; whether the seller could be asked."""
        if time.monotonic() - self._asked_at < ASK_SECONDS:
            return False
        self._asked_at = time.monotonic()
        try:
            there = {machine.id for machine in self._machines.find(self._task.id)}
        except MlcdError:  # away, or credentials that have run out: the training goes on meanwhile
            return False
        gone = [node for node in nodes if node.machine.id not in there]
        if gone:
            raise Ending(TaskState.LOST, self._farewell(gone[0]), node=gone[0].rank)
        return True

    def _farewell(self, node: RemoteNode) -> str:
        why = ""
        with suppress(MlcdError):
            why = self._machines.why_gone(node.machine)
        return f"the machine of node {node.rank} is gone" + (f" ({why})" if why else "")

    def _each(self, act: Callable[[RemoteNode], None]) -> None:
        """Do it for all nodes side by side; raise Ending as soon as the task must end."""
        pool = ThreadPoolExecutor(max(1, len(self._nodes)))
        try:
            open_ones = {pool.submit(act, node) for node in self._nodes}
            while open_ones:
                done, open_ones = wait(open_ones, timeout=TICK_SECONDS)
                for future in done:
                    future.result()
                self._check()
                self._beat()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    # ---------------------------------------------------------------------------------------------- ending

    def _end(self, ending: Ending) -> None:
        self._stop_programs(ending)
        problem = self._bring_home()
        if problem and ending.state is TaskState.SUCCEEDED:
            ending = Ending(TaskState.FAILED, problem, exit_code=0)
        for node in self._nodes:
            node.close()
        self._give_back(ending)
        self._files.forget_secrets()
        codes = tuple(_code(node) for node in self._nodes)
        self._change(
            state=ending.state,
            reason=ending.reason,
            exit_code=ending.exit_code if ending.exit_code is not None else next(iter(codes), None),
            exit_codes=codes,
            failed_node=ending.node,
            ended_at=time.time(),
            received_bytes=self._received(),
        )

    def _stop_programs(self, ending: Ending) -> None:
        """SIGTERM, the grace, SIGKILL on every machine that answers."""
        if not self._state.agents:
            return
        grace = self._task.grace_seconds
        if ending.state in (TaskState.FAILED, TaskState.LOST) and "notice" not in ending.reason:
            grace = min(grace, FAILED_GRACE_SECONDS)
        lost = {ending.node} if ending.state is TaskState.LOST and "notice" not in ending.reason else set()
        open_ones = [node for node in self._nodes if not node.ended and node.rank not in lost]
        give_up_at = time.monotonic() + grace + END_SECONDS
        for node in open_ones:
            with suppress(CloudError):
                node.stop(grace)
        while any(not node.ended and node.silent_seconds < grace + END_SECONDS for node in open_ones):
            if time.monotonic() > give_up_at:
                return
            self._beat()
            time.sleep(TICK_SECONDS / 2)

    def _bring_home(self) -> str:
        """The rest of the logs, the last checkpoint, the outputs; why that was not possible, if it was not."""
        if not self._state.agents:
            return ""
        if self._bringer is not None:
            self._bringer.close()
        try:
            self._each_answering(RemoteNode.hear)
            if self._nodes[0].agent:
                (self._bringer or self._make_bringer()).bring()
            bring_outputs(self._nodes, self._folder.outputs)
        except (CloudError, OSError, ValueError) as error:
            traceback.print_exc()
            return f"what it made could not be brought home: {error}"
        return ""

    def _each_answering(self, act: Callable[[RemoteNode], None]) -> None:
        for node in self._nodes:
            if node.silent_seconds < ASK_SECONDS or node.ended:
                with suppress(CloudError):
                    act(node)

    def _give_back(self, ending: Ending) -> None:
        """Give the machines back, or let them wait a little for the job's next task, where it may want them."""
        machines = self._all_machines()
        kept = self._worth_keeping(ending)
        if kept:
            until = time.time() + self._machines.keep_seconds
            keep(self._home, self._task.job_id, self._spec.deployment, [n.machine for n in kept], until)
            self._change(kept=tuple(node.machine.id for node in kept), kept_until=until)
        going = [machine for machine in machines if machine.id not in self._state.kept]
        self._release(going)

    def _worth_keeping(self, ending: Ending) -> list[RemoteNode]:
        """Machines in good order whose job will go on: after a probe, or when another node was lost."""
        again = ending.state is TaskState.LOST or (
            self._task.kind is TaskKind.PROBE and ending.state in (TaskState.SUCCEEDED, TaskState.STOPPED)
        )
        asked = ending.reason == "stopped" and self._task.kind is TaskKind.TRAINING
        if not again or asked or self._machines.keep_seconds <= 0 or not self._state.agents:
            return []
        return [
            node for node in self._nodes if node.ended and not node.agent.get("notice") and self._leased(node)
        ]

    def _leased(self, node: RemoteNode) -> bool:
        """Whether the machine has been told when to end, should nobody come for it."""
        with suppress(CloudError):
            node.renew(time.time() + self._machines.keep_seconds)
            return True
        return False

    def _release(self, machines: list[Machine]) -> None:
        """Give back, again and again until the seller has heard it; the lease ends what it does not hear of."""
        give_up_at = time.monotonic() + self._machines.lease_seconds
        while machines:
            try:
                self._machines.release(machines)
                break
            except MlcdError:
                traceback.print_exc()
                if time.monotonic() > give_up_at:
                    break
                self._beat()
                time.sleep(2.0)
        now = time.time()
        self._change(billed_to={**self._state.billed_to, **{machine.id: now for machine in machines}})

    def _all_machines(self) -> list[Machine]:
        """Ours by our own books and by the seller's: a call that was killed may have rented some that we never saw."""
        known = {machine.id: machine for machine in self._state.machines}
        with suppress(MlcdError):
            known.update({machine.id: machine for machine in self._machines.find(self._task.id)})
        return list(known.values())

    def _mind_kept(self) -> None:
        """Wait until the time of the kept machines is up, and give back those that no task took."""
        if self._state.kept_until is None:
            return
        time.sleep(max(0.0, self._state.kept_until - time.time() - 1.0))
        kept = [machine for machine in self._state.machines if machine.id in self._state.kept]
        with suppress(MlcdError):  # the lease on the machines ends them all the same
            self._machines.release(unclaimed(self._home, self._task.job_id, kept))

    # -------------------------------------------------------------------------------------------- small things

    def _make_bringer(self) -> Bringer:
        follower = Follower(self._spec, self._folder, self._state.started_at or time.time())
        return Bringer(
            self._nodes[0], self._checkpoints, self._task.checkpoint_keep, follower.samples_at, self._task.id
        )

    @property
    def _checkpoints(self) -> Path:
        return Path(self._task.checkpoints) if self._task.checkpoints else self._folder.root / "checkpoints"

    def _beat(self) -> None:
        """Renew the leases and give a sign of life, not too often."""
        if time.monotonic() - self._beat_at < BEAT_SECONDS:
            return
        for node in self._nodes:
            if self._state.agents and node.silent_seconds < ASK_SECONDS and not self._state.state.ended:
                with suppress(CloudError):
                    node.keep_renewed(self._machines.lease_seconds)
        self._change(usage=_usage(self._nodes), received_bytes=self._received())

    def _received(self) -> int:
        return max(self._state.received_bytes, sum(node.received_bytes for node in self._nodes))

    def _change(self, **facts: Any) -> None:
        self._beat_at = time.monotonic()
        self._state = replace(self._state, **facts)
        self._files.write_state(self._state)


def _load(name: str) -> Any:
    module, function = name.split(":")
    return getattr(import_module(module), function)


def _code(node: RemoteNode) -> int | None:
    codes = node.agent.get("codes") or [None]
    failed: int | None = next((code for code in codes if code), codes[0])
    return failed


def _usage(nodes: list[RemoteNode]) -> Usage:
    """Means over the nodes, peaks of the fullest."""
    uses = [node.agent["usage"] for node in nodes if node.agent.get("usage")]
    if not uses:
        return Usage()
    means = {
        name: sum(use[name] for use in uses) / len(uses)
        for name in ("cpu_share", "gpu_share", "network_mbps")
    }
    peaks = {name: max(use[name] for use in uses) for name in ("peak_memory_gib", "peak_gpu_memory_gib")}
    return Usage(**means, **peaks)
