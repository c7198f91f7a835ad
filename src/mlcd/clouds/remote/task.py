"""The life of one task, as its runner lives it.

machines → reachable → code and agents → setup everywhere → run → end → collect → release → final state
└──────────────────────────────── billed ─────────────────────────────────────────┘

Each step looks first at what there is, so that a runner that takes over from one that was killed goes on where it was.
What comes after `run` is in collect.py.
"""

from __future__ import annotations

import math
import os
import random
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from typing import Any

from mlcd.clouds.remote.archives import make_archives
from mlcd.clouds.remote.base import BusyError, Machine, OpenMachines, PartlyRentedError, RefusedError
from mlcd.clouds.remote.collect import Collector
from mlcd.clouds.remote.ends import first_lease
from mlcd.clouds.remote.files import Spec, State, TaskFiles
from mlcd.clouds.remote.node import RemoteNode
from mlcd.clouds.remote.node_spec import make_node_specs
from mlcd.clouds.remote.outcome import NodeReports, decide_outcome
from mlcd.clouds.remote.record import Record
from mlcd.clouds.remote.upload import Upload
from mlcd.clouds.remote.warm_pool import WarmMachine, claim, drop, refuse, take, taken_over
from mlcd.clouds.tasks.life import TaskLife
from mlcd.clouds.tasks.outcome import TIME_LIMIT, Ending, Outcome
from mlcd.clouds.tasks.runner import load
from mlcd.clouds.tasks.signals import SIGNALS
from mlcd.clouds.tasks.watch import check_files
from mlcd.core.task import EndCause, TaskState
from mlcd.errors import CloudError, MlcdError, UserError

TICK_SECONDS = 0.2
ASK_SECONDS = 3.0  # how often the provider is asked about a machine that does not answer
KNOWN_SECONDS = 10.0  # a machine that the provider does not list may be too new for its list
BUSY_SECONDS = 600.0  # for a provider that was asked too often to let us rent
BUSY_PAUSE_SECONDS = 5.0
_PORTS = range(20000, 32000)


class RemoteTask(TaskLife[Spec, State]):
    """One task, from renting the machines to the final state."""

    files_kind = TaskFiles
    users_errors = (UserError, RefusedError)
    _files: TaskFiles

    def __init__(self, files: TaskFiles, spec: Spec, secrets: Mapping[str, str]) -> None:
        super().__init__(files, spec, secrets)
        # SIGTERM ends us, not the task, which is taken over; and what the provider starts must hear it.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        open_machines: OpenMachines = load(spec.provider)
        self._machines = open_machines(self._home, spec.options, files)
        self._record = Record(files, spec, self._machines)
        self._collector = Collector(self._record)
        self._asked_at = -math.inf
        self._unknown_at = -math.inf  # when the provider was last asked without an answer

    def run(self) -> None:
        """Look after the task, whatever happens, and leave the final state."""
        record = self._record
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        record.begin()
        record.change(runners=record.state.runners + 1)
        record.watch_leases()
        if not record.state.state.ended:
            if record.state.outcome is None:
                self._collector.collect(self._live())
            self._collector.release()
        self._collector.watch_warm()
        os._exit(0)  # connections to machines that are gone must not hold us up

    def _steps(self) -> None:
        if self._record.state.agents:
            self._rejoin()
        self._check()
        self._acquire()
        self._connect()
        if not self._record.state.agents:
            self._prepare()
        self._set_up()
        self._follow()

    @property
    def _began(self) -> bool:
        return self._record.state.running_at is not None

    # ------------------------------------------------------------------------------------------- beginning

    def _rejoin(self) -> None:
        """Hear what runs, before anything is decided: only what is reached can be ended and brought home."""
        self._record.nodes = self._nodes()
        for node in self._record.nodes:
            node.lease.hold()
            node.listen()

    def _acquire(self) -> None:
        """Rent the machines, those that wait for this job first; a runner before us may have rented some or all."""
        if len(self._record.state.machines) >= self._spec.deployment.nodes:
            return
        self._know(self._rent(self._take_over()))

    def _take_over(self) -> list[Machine]:
        """Machines that wait for this job, each once its lease is renewed: it must not end while others are rented."""
        into, job_id = self._files.claimed, self._task.job_id
        waiting = claim(self._record.home, job_id, self._spec.deployment, into)
        return [taken_over(warm) for each in waiting if (warm := self._renewed(into, each)) is not None]

    def _renewed(self, into: Path, warm: WarmMachine) -> WarmMachine | None:
        """It with its lease renewed; None: it ends too soon or does not answer, and is given back."""
        if not warm.ends_soon:
            with suppress(CloudError):
                self._record.lease_of(warm.machine).renew()
                warm = warm if warm.taken_at else take(into, warm)
        if warm.taken_at:  # if by a runner before us: ours, and ours to pay, whether or not it answers now
            self._record.lease_of(warm.machine).hold()
            return warm
        refuse(into, warm)
        with suppress(MlcdError):  # then it is given back at the task's end
            self._machines.release([warm.machine])
            drop(into, warm)
        return None

    def _rent(self, had: Sequence[Machine]) -> Sequence[Machine]:
        """Rent what is missing; a provider that was asked too often is asked again, for a while."""
        task, give_up_at = self._task, time.monotonic() + BUSY_SECONDS
        while True:
            try:
                self._machines.adopt(had, task.id)
                return self._machines.acquire(task.id, task.job_id, self._spec.deployment, had)
            except PartlyRentedError as error:
                self._know(error.machines)
                if not isinstance(error.cause, BusyError) or time.monotonic() > give_up_at:
                    raise error.cause from error
            except BusyError:
                if time.monotonic() > give_up_at:
                    raise
            self._pause(BUSY_PAUSE_SECONDS)

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._check()
            self._record.beat()
            time.sleep(TICK_SECONDS)

    def _connect(self) -> None:
        """Wait until all machines have addresses, and know the way to each."""
        record = self._record
        while not all(machine.host for machine in record.state.machines):
            self._check()
            with suppress(BusyError):  # they boot meanwhile
                self._know(self._machines.locate(record.state.machines))
            self._ask(record.state.machines)
            time.sleep(TICK_SECONDS)
        record.nodes = record.nodes or self._nodes()
        self._make_folders()

    def _know(self, machines: Sequence[Machine]) -> None:
        """Write down what the provider tells of the machines, and since when they cost money."""
        billed = [machine for machine in machines if machine.billed_from]
        leases = {each.id: first_lease(each, self._machines.lease_seconds) for each in billed}
        self._record.change(
            machines=tuple(machines),
            started_at=min((machine.billed_from for machine in billed), default=None),
            leased_until={**leases, **self._record.state.leased_until},
        )

    def _nodes(self) -> list[RemoteNode]:
        name, record, machines = self._files.root.name, self._record, self._machines
        ways = [(machine, machines.reach(machine), record.lease_of(machine)) for machine in record.state.machines]
        return [RemoteNode(rank, *way, name, machines.control, record.folder) for rank, way in enumerate(ways)]

    def _prepare(self) -> None:
        """Send everything and start the agents, on all machines side by side."""
        record, drafts = self._record, self._files.root / "out"
        ours, packer = record.home.parent.resolve(), ThreadPoolExecutor(1)
        packing = packer.submit(make_archives, self._task, record.checkpoints, ours, drafts)
        packer.shutdown(wait=False)
        self._each(lambda node: node.wait_until_reachable(self._check_lost))
        self._each(RemoteNode.make_room)
        record.change(clock_ahead=record.nodes[0].lease.clock_ahead)
        self._wait({packing})
        upload = Upload(packing.result(), record.nodes, self._machines.python)
        self._each(upload.send)
        self._each(upload.relay)
        record.change(setup_at=time.time(), state=TaskState.SETUP)
        specs = self._node_specs()
        self._each(lambda node: node.start(specs[node.rank], self._machines.python))
        record.change(agents=True)
        self._files.forget_secrets()

    def _node_specs(self) -> list[dict[str, Any]]:
        left = self._seconds_left
        # Two tasks must not choose alike, and all runners of one must: some agents may have started before a kill.
        port = random.Random(f"{self._task.id} {self._spec.launched_at}").choice(_PORTS)  # noqa: S311
        return make_node_specs(self._spec, self._machines, self._record.nodes, self._secrets, left, port)

    def _set_up(self) -> None:
        """Wait until setup is done everywhere, then let the program start everywhere."""
        record = self._record
        for node in record.nodes:
            node.listen()
        while not all(node.agent.get("phase") in ("ready", "running", "ended") for node in record.nodes):
            self._tick()
        self._each(RemoteNode.go)
        record.change(state=TaskState.RUNNING, running_at=record.state.running_at or time.time())

    # ------------------------------------------------------------------------------------------- following

    def _follow(self) -> None:
        """Return when all nodes have ended well; raise Ending when one has not, or must not go on."""
        self._collector.start_downloading()
        while not all(node.ended_well for node in self._record.nodes):
            self._tick()

    def _tick(self) -> None:
        """Look once at everything, and let a little time pass."""
        self._check()
        outcome = decide_outcome(self._reports())
        if outcome is not None:
            raise Ending(outcome)
        self._ask_about_silent()
        self._record.beat()
        time.sleep(TICK_SECONDS)

    def _reports(self) -> NodeReports:
        nodes, folder = self._record.nodes, self._record.folder
        return NodeReports(
            [node.agent for node in nodes],
            [node.silent_seconds for node in nodes],
            [node.ended_seconds for node in nodes],
            [folder.log(node.rank) for node in nodes],
        )

    def _check(self) -> None:
        """Raise Ending when the task must end."""
        check_files(self._files.stop, (self._files.root, self._record.folder.root))
        if self._seconds_left == 0.0:
            raise Ending(TIME_LIMIT)

    @property
    def _seconds_left(self) -> float | None:
        """Of the task's limit, which counts from when machines cost money; None: it has none."""
        return self._record.state.seconds_left(self._task.max_seconds)

    def _check_lost(self) -> None:
        """While a machine boots: end when the task must, or when the machine is gone."""
        self._check()
        self._ask([node.machine for node in self._record.nodes])

    def _ask_about_silent(self) -> None:
        """A machine that does not answer is lost when its provider says so, or after a while."""
        silent = [node for node in self._record.nodes if node.silent_seconds > ASK_SECONDS and not node.ended]
        if not silent:
            return
        known = self._ask([node.machine for node in silent])
        # Whether we or they were away is not known of the time in which nobody could be asked.
        since_known = time.monotonic() - self._unknown_at
        lost_seconds = self._machines.lost_seconds
        late = [node for node in silent if min(node.silent_seconds, since_known) > lost_seconds]
        if late and known:
            why = f": {late[0].problem}" if late[0].problem else ""
            told = f"node {late[0].rank} does not answer{why}"
            raise Ending(Outcome(EndCause.NODE_LOST, told, node=late[0].rank))

    def _ask(self, machines: Sequence[Machine]) -> bool:
        """Raise Ending where one of them is gone; whether the provider could be asked."""
        if time.monotonic() - self._asked_at < ASK_SECONDS:
            return False
        self._asked_at = time.monotonic()
        try:
            there = {machine.id for machine in self._machines.find(self._task.id)}
        except MlcdError:  # away, or credentials that have run out: the training goes on meanwhile
            self._unknown_at = time.monotonic()
            return False
        old_enough = time.time() - KNOWN_SECONDS
        gone = [each for each in machines if each.id not in there and each.billed_from < old_enough]
        if gone:
            rank = [machine.id for machine in self._record.state.machines].index(gone[0].id)
            raise Ending(Outcome(EndCause.NODE_LOST, self._why_gone(gone[0], rank), node=rank))
        return True

    def _why_gone(self, machine: Machine, rank: int) -> str:
        why = ""
        with suppress(MlcdError):
            why = self._machines.why_gone(machine)
        return f"the machine of node {rank} is gone" + (f" ({why})" if why else "")

    def _each(self, act: Callable[[RemoteNode], None]) -> None:
        """Do it for all nodes side by side; raise Ending as soon as the task must end."""
        pool = ThreadPoolExecutor(max(1, len(self._record.nodes)))
        try:
            self._wait({pool.submit(act, node) for node in self._record.nodes})
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _wait(self, open_ones: set[Future[Any]]) -> None:
        """Wait for what goes on in other threads; raise Ending as soon as the task must end."""
        while open_ones:
            done, open_ones = wait(open_ones, timeout=TICK_SECONDS)
            for future in done:
                future.result()
            self._check()
            self._record.beat()
