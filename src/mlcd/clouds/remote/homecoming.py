"""The end of a task: its programs stopped, what they made brought home, the machines given back or kept a little.

How the task ended is written down between the two halves: whoever is killed while giving machines back, the next courier
gives back what is left, and does not touch machines that another task may have taken over meanwhile.
"""

from __future__ import annotations

import time
import traceback
from contextlib import suppress

from mlcd.clouds.remote.base import Machine
from mlcd.clouds.remote.bringing import Bringer, bring_outputs
from mlcd.clouds.remote.ends import ended_at, lease_ends
from mlcd.clouds.remote.files import Outcome
from mlcd.clouds.remote.keeping import claimed, offer, publish, unclaimed
from mlcd.clouds.remote.node import RemoteNode
from mlcd.clouds.remote.record import Record
from mlcd.clouds.remote.verdict import SPOT_NOTICE, TAKEN_AWAY, is_leaving
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

    def come_home(self, ending: Ending) -> None:
        """Stop the programs, bring home what they made, and write down how the task ended."""
        problem = self._come_home(ending)
        if problem and ending.state is TaskState.SUCCEEDED:
            ending = Ending(TaskState.FAILED, problem, exit_code=0)
        codes = tuple(node.exit_code for node in self._record.nodes)
        code = ending.exit_code if ending.exit_code is not None else next(iter(codes), None)
        outcome = Outcome(ending.state, ending.reason, code, codes, ending.node)
        self._record.files.forget_secrets()
        self._record.change(outcome=outcome, received_bytes=self._record.received_bytes)

    def give_back(self) -> None:
        """Give the machines back, or let them wait a little for the job's next task; then the last words."""
        record, outcome = self._record, self._record.state.outcome
        assert outcome is not None, "come_home comes first"
        if (
            record.state.kept_until is None
        ):  # a courier before us may have been killed after it had decided this
            self._offer_to_next(outcome.state)
        record.leave_leases()
        for node in record.nodes:
            node.close()
        if record.state.kept_until is not None:  # else what was offered before a kill is given back
            publish(record.home, self._task.job_id, record.files.offered)
        self._release_all()
        record.change(
            state=outcome.state,
            reason=outcome.reason,
            exit_code=outcome.exit_code,
            exit_codes=outcome.exit_codes,
            failed_node=outcome.failed_node,
            ended_at=ended_at(record.state, time.time()),
        )

    def mind_kept(self) -> None:
        """Wait until the time of the kept machines is up, and give back those that no task took."""
        state = self._record.state
        if state.kept_until is None:
            return
        time.sleep(max(0.0, state.kept_until - time.time() - 1.0))
        kept = [machine for machine in state.machines if machine.id in state.kept]
        with suppress(MlcdError):  # the lease on the machines ends them all the same
            self._machines.release(unclaimed(self._record.home, self._task.job_id, kept, self._task.id))

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

    def _offer_to_next(self, state: TaskState) -> None:
        """Choose the machines that the job's next task may want, and have each end by itself should nobody come."""
        record, until = self._record, time.time() + self._machines.keep_seconds
        kept = [node.machine for node in self._worth_keeping(state) if _left_until(node, until)]
        if kept:
            offer(record.files.offered, self._task.id, record.spec.deployment, kept, until)
            record.change(kept=tuple(machine.id for machine in kept), kept_until=until)

    def _worth_keeping(self, state: TaskState) -> list[RemoteNode]:
        """Machines in good order whose job will go on: after a probe, or when another node was lost."""
        ended_well = state in (TaskState.SUCCEEDED, TaskState.STOPPED)
        probed = self._task.kind is TaskKind.PROBE and ended_well
        if not (probed or state is TaskState.LOST) or self._machines.keep_seconds <= 0:
            return []
        return [node for node in self._record.nodes if node.ended and not is_leaving(node.agent)]

    def _release_all(self) -> None:
        """Give back, again and again until the seller has heard it; the lease ends what it does not hear of."""
        record = self._record
        known = {machine.id: machine for machine in record.state.machines}
        known |= {kept.machine.id: kept.machine for kept in claimed(record.files.claimed)}
        give_up_at = time.monotonic() + self._machines.lease_seconds
        while True:
            try:
                there = {machine.id: machine for machine in self._machines.find(self._task.id)}
                self._machines.release(self._not_kept({**there, **known}))
                break
            except MlcdError as error:
                traceback.print_exc()
                if not (known or self._machines.may_have_rented) or time.monotonic() > give_up_at:
                    there = {}
                    break
                record.change(warning=_still_paid(error))  # a sign of life; the leases are not renewed
                time.sleep(RETRY_SECONDS)
        record.change(billed_to={**record.state.billed_to, **self._ends(known, set(there))})

    def _ends(self, known: dict[str, Machine], there: set[str]) -> dict[str, float]:
        """When each machine ended: now, given back, or before, by the seller's books or by its lease."""
        now, ours = time.time(), self._not_kept(known)
        return {each.id: now if each.id in there else self._ended_before(each, now) for each in ours}

    def _ended_before(self, machine: Machine, now: float) -> float:
        told = None
        with suppress(MlcdError):
            told = self._machines.ended_at(machine)
        if told is None:
            told = lease_ends(self._record.state, machine, self._task.grace_seconds)
        return now if told is None else min(now, told)

    def _not_kept(self, machines: dict[str, Machine]) -> list[Machine]:
        return [machine for machine in machines.values() if machine.id not in self._record.state.kept]


def _left_until(node: RemoteNode, until: float) -> bool:
    """Whether the machine has been told when to end, should nobody come for it."""
    with suppress(CloudError):
        node.lease.leave(until)
        return True
    return False


def _still_paid(error: MlcdError) -> str:
    """What is to be told of machines that the seller does not take back."""
    told = f"Machines could not be given back and are still paid for: {error.message} {error.hint}"
    return f"{told.strip()} It is tried again until their leases end them."


def _noticed(ending: Ending) -> bool:
    """Whether there is time to save: the machine will be taken, but has not been yet."""
    return ending.reason.startswith((SPOT_NOTICE, TAKEN_AWAY))
