"""The end of a task: its programs stopped, what they made brought home, the machines given back or kept a little."""

from __future__ import annotations

import time
import traceback
from contextlib import suppress

from mlcd.clouds.remote.base import Machine
from mlcd.clouds.remote.bringing import Bringer, bring_outputs
from mlcd.clouds.remote.keeping import keep, unclaimed
from mlcd.clouds.remote.node import RemoteNode
from mlcd.clouds.remote.record import Record
from mlcd.clouds.tasks.watch import Ending
from mlcd.core.task import TaskKind, TaskState
from mlcd.errors import CloudError, MlcdError

TICK_SECONDS = 0.1
FAILED_GRACE_SECONDS = 5.0  # for the other nodes, once one has failed or is lost
END_SECONDS = 20.0  # beyond the grace, for a program to be ended
LATELY_SECONDS = 3.0  # a node that was heard of since then answers


class Homecoming:
    """What is left to do once a task must end, whatever state it is in."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._task = record.task
        self._machines = record.machines
        self._bringer: Bringer | None = None

    def start_bringing(self) -> None:
        """Bring checkpoints home as they come, from now on."""
        self._bringer = self._record.bringer()
        self._bringer.start()

    def end(self, ending: Ending) -> None:
        """Stop, bring home, give back, last words."""
        record = self._record
        self._stop_programs(ending)
        problem = self._bring_home()
        if problem and ending.state is TaskState.SUCCEEDED:
            ending = Ending(TaskState.FAILED, problem, exit_code=0)
        self._give_back(ending)
        for node in record.nodes:
            node.close()
        record.files.forget_secrets()
        codes = tuple(node.exit_code for node in record.nodes)
        record.change(
            state=ending.state,
            reason=ending.reason,
            exit_code=ending.exit_code if ending.exit_code is not None else next(iter(codes), None),
            exit_codes=codes,
            failed_node=ending.node,
            ended_at=time.time(),
            received_bytes=record.received_bytes,
        )

    def mind_kept(self) -> None:
        """Wait until the time of the kept machines is up, and give back those that no task took."""
        state = self._record.state
        if state.kept_until is None:
            return
        time.sleep(max(0.0, state.kept_until - time.time() - 1.0))
        kept = [machine for machine in state.machines if machine.id in state.kept]
        with suppress(MlcdError):  # the lease on the machines ends them all the same
            self._machines.release(unclaimed(self._record.home, self._task.job_id, kept))

    # -------------------------------------------------------------------------------------------- stopping

    def _stop_programs(self, ending: Ending) -> None:
        """SIGTERM, the grace, SIGKILL on every machine that answers; those that only serve are asked last."""
        if not self._record.state.agents:
            return
        grace, lost = self._task.grace_seconds, set[int]()
        if ending.state in (TaskState.FAILED, TaskState.LOST) and not _noticed(ending):
            grace = min(grace, FAILED_GRACE_SECONDS)
            lost = {ending.node} if ending.state is TaskState.LOST else lost
        going = [node for node in self._record.nodes if not node.ended and node.rank not in lost]
        self._stop([node for node in going if not node.serves], grace)
        self._stop([node for node in going if node.serves], grace)

    def _stop(self, nodes: list[RemoteNode], grace: float) -> None:
        for node in nodes:
            with suppress(CloudError):
                node.stop(grace)
        self._wait_until_ended(nodes, grace + END_SECONDS)

    def _wait_until_ended(self, nodes: list[RemoteNode], seconds: float) -> None:
        give_up_at = time.monotonic() + seconds
        while any(self._may_still_end(node) for node in nodes) and time.monotonic() < give_up_at:
            self._record.beat()
            time.sleep(TICK_SECONDS)

    def _may_still_end(self, node: RemoteNode) -> bool:
        return not node.ended and node.silent_seconds < self._machines.lost_seconds

    # -------------------------------------------------------------------------------------- bringing home

    def _bring_home(self) -> str:
        """The rest of the logs, the last checkpoint, the outputs; why that was not possible, if it was not."""
        record = self._record
        if not record.state.agents:
            return ""
        if self._bringer is not None:
            self._bringer.close()
        try:
            for node in record.nodes:
                self._hear_last(node)
            if record.nodes[0].agent:
                (self._bringer or record.bringer()).bring()
            bring_outputs(record.nodes, record.folder.outputs)
        except (CloudError, OSError, ValueError) as error:
            traceback.print_exc()
            return f"what it made could not be brought home: {error}"
        return ""

    def _hear_last(self, node: RemoteNode) -> None:
        if node.ended or node.silent_seconds < LATELY_SECONDS:
            with suppress(CloudError):
                node.hear()

    # ---------------------------------------------------------------------------------------- giving back

    def _give_back(self, ending: Ending) -> None:
        """Give the machines back, or let them wait a little for the job's next task, where it may want them."""
        record = self._record
        machines, kept = self._all_machines(), self._worth_keeping(ending)
        if kept:
            until = time.time() + self._machines.keep_seconds
            machines_kept = [node.machine for node in kept]
            keep(record.home, self._task.job_id, record.spec.deployment, machines_kept, until)
            record.change(kept=tuple(machine.id for machine in machines_kept), kept_until=until)
        self._release([machine for machine in machines if machine.id not in record.state.kept])

    def _worth_keeping(self, ending: Ending) -> list[RemoteNode]:
        """Machines in good order whose job will go on: after a probe, or when another node was lost."""
        probed = self._task.kind is TaskKind.PROBE and ending.state in (
            TaskState.SUCCEEDED,
            TaskState.STOPPED,
        )
        if not (probed or ending.state is TaskState.LOST) or self._machines.keep_seconds <= 0:
            return []
        return [
            node
            for node in self._record.nodes
            if node.ended and not node.agent.get("notice") and self._leased(node)
        ]

    def _leased(self, node: RemoteNode) -> bool:
        """Whether the machine has been told when to end, should nobody come for it."""
        with suppress(CloudError):
            node.leave(time.time() + self._machines.keep_seconds)
            return True
        return False

    def _release(self, machines: list[Machine]) -> None:
        """Give back, again and again until the seller has heard it; the lease ends what it does not hear of."""
        give_up_at = time.monotonic() + self._machines.lease_seconds
        while machines and time.monotonic() < give_up_at:
            try:
                self._machines.release(machines)
                break
            except MlcdError:
                traceback.print_exc()
                self._record.beat()
                time.sleep(2.0)
        now = time.time()
        given = {**self._record.state.billed_to, **{machine.id: now for machine in machines}}
        self._record.change(billed_to=given)

    def _all_machines(self) -> list[Machine]:
        """Ours by our own books and by the seller's: a call that was killed may have rented some that we never saw."""
        known = {machine.id: machine for machine in self._record.state.machines}
        with suppress(MlcdError):
            for machine in self._machines.find(self._task.id):
                known.setdefault(machine.id, machine)
        return list(known.values())


def _noticed(ending: Ending) -> bool:
    """Whether there is time to save: the machine will be taken, but has not been yet."""
    return ending.reason.startswith("spot notice")
