"""The end of a task: its programs stopped, what they made brought home, the machines given back or kept warm a little.

How the task ended is written down between the two halves: whoever is killed while giving machines back, the next runner
gives back what is left, and does not touch machines that another task may have taken over meanwhile.
"""

from __future__ import annotations

import time
import traceback
from contextlib import suppress

from mlcd.clouds.remote.base import Machine
from mlcd.clouds.remote.download import Downloader, download_outputs
from mlcd.clouds.remote.ends import ended_at, lease_ends
from mlcd.clouds.remote.node import RemoteNode
from mlcd.clouds.remote.outcome import is_leaving
from mlcd.clouds.remote.record import Record
from mlcd.clouds.remote.warm_pool import claimed, offer, publish, unclaimed
from mlcd.clouds.tasks.node import FAILED_GRACE_SECONDS
from mlcd.clouds.tasks.outcome import Outcome
from mlcd.core.task import EndCause, TaskKind, TaskState
from mlcd.errors import CloudError, MlcdError

TICK_SECONDS = 0.1
HOME_SECONDS = 120.0  # to try again for, where the model is on a machine that does not answer
RETRY_SECONDS = 2.0
END_SECONDS = 20.0  # beyond the grace, for a program to be ended
RECENT_SECONDS = 3.0  # a node that was heard of since then answers


class Collector:
    """What is left to do once a task must end, whatever state it is in."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._task = record.task
        self._machines = record.machines
        self._downloader: Downloader | None = None

    def start_downloading(self) -> None:
        """Bring checkpoints home as they come, from now on."""
        self._downloader = self._record.downloader()
        self._downloader.start()

    def collect(self, outcome: Outcome) -> None:
        """Stop the programs, bring home what they made, and write down how the task ended."""
        problem = self._collect(outcome)
        if problem and outcome.cause is EndCause.COMPLETED:
            outcome = Outcome(EndCause.CRASHED, problem, exit_code=0)
        outcome = outcome.with_codes(tuple(node.exit_code for node in self._record.nodes))
        self._record.files.forget_secrets()
        self._record.change(outcome=outcome, received_bytes=self._record.received_bytes)

    def release(self) -> None:
        """Give the machines back, or let them wait a little for the job's next task; then the final state."""
        record, outcome = self._record, self._record.state.outcome
        assert outcome is not None, "collect comes first"
        # A runner before us may have been killed after it had decided this.
        if record.state.warm_until is None:
            self._offer_to_next(outcome.state)
        record.leave_leases()
        for node in record.nodes:
            node.close()
        if record.state.warm_until is not None:  # else what was offered before a kill is given back
            publish(record.home, self._task.job_id, record.files.offered)
        self._release_all()
        record.finish(outcome, ended_at(record.state, time.time()))

    def watch_warm(self) -> None:
        """Wait until the time of the warm machines is up, and give back those that no task took."""
        state = self._record.state
        if state.warm_until is None:
            return
        time.sleep(max(0.0, state.warm_until - time.time() - 1.0))
        warm = [machine for machine in state.machines if machine.id in state.warm]
        with suppress(MlcdError):  # the lease on the machines ends them all the same
            self._machines.release(unclaimed(self._record.home, self._task.job_id, warm, self._task.id))

    # -------------------------------------------------------------------------------------------- stopping

    def _stop_programs(self, outcome: Outcome) -> None:
        """SIGTERM, the grace, SIGKILL on every machine that answers; those that only serve are asked last."""
        grace, lost = self._task.grace_seconds, set[int]()
        failed = outcome.state in (TaskState.FAILED, TaskState.LOST)
        if failed and outcome.cause is not EndCause.SPOT_NOTICE:  # which leaves time to save
            grace = min(grace, FAILED_GRACE_SECONDS)
            lost = {outcome.node} if outcome.state is TaskState.LOST else lost
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

    def _collect(self, outcome: Outcome) -> str:
        """End the programs and bring home what they made; why that was not possible, if it was not."""
        if not self._record.state.agents:
            return ""
        try:
            self._stop_programs(outcome)
            if self._downloader is not None:
                self._downloader.close()
            return self._download_patiently(patient=outcome.state in (TaskState.SUCCEEDED, TaskState.STOPPED))
        except Exception as error:  # whatever it is, the machines must be given back and the cause told
            traceback.print_exc()
            return f"mlcd's own error: {error!r}"

    def _download_patiently(self, patient: bool) -> str:
        """Try again for a while where the machines are well and only the way to them is not."""
        give_up_at = time.monotonic() + HOME_SECONDS
        while True:
            try:
                self._download_all()
            except (CloudError, OSError, ValueError) as error:
                traceback.print_exc()
                if not patient or time.monotonic() > give_up_at or self._first_is_gone():
                    return f"its results could not be downloaded: {error}"
                self._record.beat()
                time.sleep(RETRY_SECONDS)
            else:
                return ""

    def _download_all(self) -> None:
        """The rest of the logs, the last checkpoint, the outputs."""
        record = self._record
        for node in record.nodes:
            self._poll_last(node)
        if record.nodes[0].agent:
            (self._downloader or record.downloader()).download()
        download_outputs(record.nodes, record.folder.outputs)

    def _first_is_gone(self) -> bool:
        """Whether the provider says that the machine with the model is no more."""
        try:
            there = {machine.id for machine in self._machines.find(self._task.id)}
        except MlcdError:
            return False
        return self._record.nodes[0].machine.id not in there

    def _poll_last(self, node: RemoteNode) -> None:
        if node.ended or node.silent_seconds < RECENT_SECONDS:
            with suppress(CloudError):
                node.poll()

    # ---------------------------------------------------------------------------------------- giving back

    def _offer_to_next(self, state: TaskState) -> None:
        """Choose the machines that the job's next task may want, and have each end by itself should nobody come."""
        record, until = self._record, time.time() + self._machines.keep_seconds
        warm = [node for node in self._worth_warming(state) if _left_until(node, until)]
        for node in warm:
            kind = record.spec.deployment.offer_of(node.rank)
            offer(record.files.offered, self._task.id, kind, [node.machine], until)
        if warm:
            record.change(warm=tuple(node.machine.id for node in warm), warm_until=until)

    def _worth_warming(self, state: TaskState) -> list[RemoteNode]:
        """Machines in good order whose job will go on: after a probe, or when another node was lost."""
        ended_well = state in (TaskState.SUCCEEDED, TaskState.STOPPED)
        probed = self._task.kind is TaskKind.PROBE and ended_well
        if not (probed or state is TaskState.LOST) or self._machines.keep_seconds <= 0:
            return []
        return [node for node in self._record.nodes if node.ended and not is_leaving(node.agent)]

    def _release_all(self) -> None:
        """Give back, again and again until the provider has heard it; the lease ends what it does not hear of."""
        record = self._record
        known = {machine.id: machine for machine in record.state.machines}
        known |= {warm.machine.id: warm.machine for warm in claimed(record.files.claimed)}
        give_up_at = time.monotonic() + self._machines.lease_seconds
        while True:
            try:
                there = {machine.id: machine for machine in self._machines.find(self._task.id)}
                self._machines.release(self._not_warm({**there, **known}))
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
        """When each machine ended: now, given back, or before, by the provider's records or by its lease."""
        now, ours = time.time(), self._not_warm(known)
        return {each.id: now if each.id in there else self._ended_before(each, now) for each in ours}

    def _ended_before(self, machine: Machine, now: float) -> float:
        told = None
        with suppress(MlcdError):
            told = self._machines.ended_at(machine)
        if told is None:
            told = lease_ends(self._record.state, machine, self._task.grace_seconds)
        return now if told is None else min(now, told)

    def _not_warm(self, machines: dict[str, Machine]) -> list[Machine]:
        return [machine for machine in machines.values() if machine.id not in self._record.state.warm]


def _left_until(node: RemoteNode, until: float) -> bool:
    """Whether the machine has been told when to end, should nobody come for it."""
    with suppress(CloudError):
        node.lease.leave(until)
        return True
    return False


def _still_paid(error: MlcdError) -> str:
    """What is to be told of machines that the provider does not take back."""
    told = f"Machines could not be given back and are still paid for: {error.message} {error.hint}"
    return f"{told.strip()} It is tried again until their leases end them."
