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
HOME_SECONDS = 120.0  # to try again for, where the model is on a machine that does not answer
RETRY_SECONDS = 2.0
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
        problem = self._come_home(ending)
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

    def _come_home(self, ending: Ending) -> str:
        """End the programs and bring home what they made; why that was not possible, if it was not."""
        if not self._record.state.agents:
            return ""
        try:
            self._stop_programs(ending)
            if self._bringer is not None:
                self._bringer.close()
            return self._bring_home(patient=ending.state in (TaskState.SUCCEEDED, TaskState.STOPPED))
        except Exception as error:  # whatever it is, the machines must be given back and the cause told
            traceback.print_exc()
            return f"mlcd's own error: {error!r}"

    def _bring_home(self, patient: bool) -> str:
        """Try again for a while where the machines are well and only the way to them is not."""
        give_up_at = time.monotonic() + HOME_SECONDS
        while True:
            try:
                self._bring_all()
            except (CloudError, OSError, ValueError) as error:
                traceback.print_exc()
                if not patient or time.monotonic() > give_up_at or self._first_is_gone():
                    return f"what it made could not be brought home: {error}"
                self._record.beat()
                time.sleep(RETRY_SECONDS)
            else:
                return ""

    def _bring_all(self) -> None:
        """The rest of the logs, the last checkpoint, the outputs."""
        record = self._record
        for node in record.nodes:
            self._hear_last(node)
        if record.nodes[0].agent:
            (self._bringer or record.bringer()).bring()
        bring_outputs(record.nodes, record.folder.outputs)

    def _first_is_gone(self) -> bool:
        """Whether the seller says that the machine with the model is no more."""
        try:
            there = {machine.id for machine in self._machines.find(self._task.id)}
        except MlcdError:
            return False
        return self._record.nodes[0].machine.id not in there

    def _hear_last(self, node: RemoteNode) -> None:
        if node.ended or node.silent_seconds < LATELY_SECONDS:
            with suppress(CloudError):
                node.hear()

    # ---------------------------------------------------------------------------------------- giving back

    def _give_back(self, ending: Ending) -> None:
        """Give the machines back, or let them wait a little for the job's next task, where it may want them."""
        record, kept = self._record, self._worth_keeping(ending)
        if kept:
            until = time.time() + self._machines.keep_seconds
            machines_kept = [node.machine for node in kept]
            keep(record.home, self._task.job_id, record.spec.deployment, machines_kept, until)
            record.change(kept=tuple(machine.id for machine in machines_kept), kept_until=until)
        self._release_all()

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

    def _release_all(self) -> None:
        """Give back, again and again until the seller has heard it; the lease ends what it does not hear of."""
        record, lease_seconds = self._record, self._machines.lease_seconds
        known = {machine.id: machine for machine in record.state.machines}
        give_up_at = time.monotonic() + lease_seconds
        while True:
            try:
                ours = self._ours(known)
                self._machines.release(ours)
                break
            except MlcdError:
                traceback.print_exc()
                if not (known or self._machines.may_have_rented) or time.monotonic() > give_up_at:
                    ours = self._not_kept(known)
                    break
                record.change()  # a sign of life; the leases are not renewed
                time.sleep(RETRY_SECONDS)
        # What nobody could give back runs until its lease is over.
        until = time.time() + (lease_seconds if time.monotonic() > give_up_at else 0.0)
        record.change(billed_to={**record.state.billed_to, **{machine.id: until for machine in ours}})

    def _ours(self, known: dict[str, Machine]) -> list[Machine]:
        """By our own books and by the seller's: a call that was killed may have rented some that we never saw."""
        found = {machine.id: machine for machine in self._machines.find(self._task.id)}
        return self._not_kept({**found, **known})

    def _not_kept(self, machines: dict[str, Machine]) -> list[Machine]:
        return [machine for machine in machines.values() if machine.id not in self._record.state.kept]


def _noticed(ending: Ending) -> bool:
    """Whether there is time to save: the machine will be taken, but has not been yet."""
    return ending.reason.startswith("spot notice")
