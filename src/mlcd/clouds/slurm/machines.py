"""Rents nodes of a Slurm cluster for one task: a batch job that holds them."""

from __future__ import annotations

import json
import math
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from mlcd.clouds.remote.base import BusyError, Machine, Notes, PlainMachines, Reach, RefusedError, UnreachableError
from mlcd.clouds.slurm import host
from mlcd.clouds.slurm.commands import Slurm
from mlcd.clouds.slurm.job_queue import JobQueue, Look, how_it_ended, pause_after
from mlcd.clouds.slurm.kinds import Kind
from mlcd.clouds.slurm.login import open_login
from mlcd.clouds.slurm.reach import SlurmReach
from mlcd.clouds.slurm.script import Comment, Request, Wanted, batch_script, job_name, minutes_of, sbatch_words
from mlcd.clouds.slurm.settings import SlurmSettings
from mlcd.clouds.slurm.states import BY_ITSELF, explained, in_the_queue, refusal_of_waiting
from mlcd.clouds.slurm.tables import JobRow
from mlcd.clouds.tasks.outcome import Outcome
from mlcd.core.machines import Deployment
from mlcd.core.task import EndCause
from mlcd.core.units import show_duration
from mlcd.errors import CloudError, MlcdError, NoCapacityError, UserError

SCHEDULING_SECONDS = 30.0  # that a scheduler may take where all is free: no queue yet
REPORT_SECONDS = 120.0  # for the nodes of a job that runs to be heard of
LONG_WAIT_SECONDS = 15.0  # in the queue
WAIT_HINT = "Use fewer nodes or another partition, or raise slurm.wait_seconds or the deadline."
# What still ends on a node may be writing.
REMOVE = "for _ in 1 2 3; do rm -rf {base} 2> /dev/null && break; sleep 1; done"
# Ends that Slurm may know more of than the agents and we do.
_FROM_OUTSIDE = (EndCause.SPOT_NOTICE, EndCause.NODE_LOST, EndCause.CLOUD_FAILED, EndCause.NO_CAPACITY)


class SlurmMachines(PlainMachines):
    """See mlcd.clouds.remote.base.Machines for what it promises.

    A machine is a place in the task's job: it is known as soon as the job is, and has a host once its node reports.
    """

    def __init__(self, home: Path, options: Mapping[str, Any], notes: Notes) -> None:
        known = {each.name for each in fields(SlurmSettings)}
        self._settings = SlurmSettings(**{name: options[name] for name in known & options.keys()})
        self._grace_seconds = float(options.get("grace_seconds", 0.0))
        self._wanted = Wanted(options.get("max_seconds"), float(options.get("expected_seconds", 0.0)))
        self._notes = notes
        self._login = open_login(home, self._settings)
        self._slurm = Slurm(self._login)
        self._queue = JobQueue(self._slurm, notes)
        self.may_have_rented = "submits" in notes.read_notes()  # a runner before us has called sbatch
        self._folder = ""
        self._seen_running = 0.0  # when the job was first seen to run, by the monotonic clock
        self.waiting = ""  # how it stands in the queue, where that takes long
        self.python = self._settings.python
        self.lease_seconds, self.lost_seconds = self._settings.lease_seconds, self._settings.lost_seconds

    # ------------------------------------------------------------------------------------------- renting

    def acquire(self, task_id: str, job_id: str, deployment: Deployment, had: Sequence[Machine]) -> Sequence[Machine]:
        """The task's job, found or submitted; `locate` tells when it runs."""
        asked_at = self._notes.read_notes().get("asked at", "")
        if not asked_at:
            asked_at = f"{time.time():.3f}"
            self._notes.note("asked at", asked_at)
        with _patiently():
            if self._queue.number is None:
                known = next(iter(self._queue.look(task_id).open), None)
                number = known.id if known is not None else self._submit(task_id, job_id, deployment)
                self._notes.note("job", str(number))
        details = {"task": task_id, "asked_at": asked_at}
        return [
            Machine(f"{job_name(task_id)}-{rank}", "", "", 0.0, details=details) for rank in range(deployment.nodes)
        ]

    def locate(self, machines: Sequence[Machine]) -> Sequence[Machine]:
        """The same machines, once Slurm has started the job, with those nodes that have reported; raises where none will.

        What is new is told first, so that it is on the bill before anything is given up.
        """
        with _patiently():
            return self._locate(machines)

    def _locate(self, machines: Sequence[Machine]) -> Sequence[Machine]:
        task_id, waited = machines[0].details["task"], time.time() - float(machines[0].details["asked_at"])
        job = self._only(self._queue.look(task_id, pause_after(waited)))
        if job is None or not (job.waits or job.holds):
            raise self._over(task_id)
        if job.waits:
            self._refuse_hopeless(job, waited)
            self.waiting = in_the_queue(job, time.time()) if waited > LONG_WAIT_SECONDS else ""
            return machines
        located = [self._located(machine, rank, job) for rank, machine in enumerate(machines)]
        if located == list(machines) and self._late(job):
            raise self._unheard(task_id, job)
        return located

    def _only(self, look: Look) -> JobRow | None:
        """The task's job. Of two, where sbatch was killed unheard, the first: the other one waits for it, and is cancelled."""
        if len(look.open) < 2:
            return look.job(self._queue.number)
        first, *others = look.open
        self._notes.note("job", str(first.id))
        self._slurm.cancel([job.id for job in others])
        return first

    def _late(self, job: JobRow) -> bool:
        """Whether its nodes have had their time to report. Nodes that are booted for it have not begun to run it."""
        if job.state == "RUNNING" and not self._seen_running:
            self._seen_running = time.monotonic()
        return bool(self._seen_running) and time.monotonic() - self._seen_running > REPORT_SECONDS

    def find(self, task_id: str) -> Sequence[Machine]:
        """The places of its job, if that runs or may come to run."""
        job = self._queue.job(task_id)
        if job is None or not (job.waits or job.holds):
            return []
        found = [
            Machine(f"{job_name(task_id)}-{rank}", "", "", 0.0, details={"task": task_id}) for rank in range(job.nodes)
        ]
        return [replace(machine, billed_from=job.started_at or 0.0) for machine in found] if job.holds else found

    def release(self, machines: Sequence[Machine]) -> None:
        """Cancel the jobs, and remove what they kept in the shared folder."""
        for task_id in {machine.details["task"] for machine in machines}:
            self._slurm.cancel([job.id for job in self._queue.look(task_id, 0.0).open])
            self._queue.forget()
            self._login.run(REMOVE.format(base=shlex.quote(self._base(task_id))))

    def reach(self, machine: Machine) -> Reach:
        """By the shared folder, and the host on the node."""
        rank = machine.id.rpartition("-")[2]
        return SlurmReach(self._login, f"{self._base(machine.details['task'])}/node-{rank}", machine.host or machine.id)

    def _over(self, task_id: str) -> CloudError:
        """Why its job is over before its nodes have reported."""
        job = self._queue.settled(task_id)
        if job is not None and job.state in BY_ITSELF:
            return self._unheard(task_id, job)
        return CloudError(f"{job_name(task_id)} ended before it began: {how_it_ended(task_id, job)}.")

    def _unheard(self, task_id: str, job: JobRow) -> RefusedError:
        return RefusedError(
            f"Not all nodes of Slurm's job {job.id} reported to {self._base(task_id)}: {self._log(task_id)}",
            "Set slurm.folder to a folder that login node and nodes share, and slurm.python to a Python of the nodes.",
        )

    # ------------------------------------------------------------------------------------------- the end

    def why_gone(self, machine: Machine) -> str:
        """What Slurm says of the job's end."""
        task_id = machine.details["task"]
        return how_it_ended(task_id, self._queue.job(task_id))

    def ended_at(self, machine: Machine) -> float | None:
        """When the job ended."""
        job = self._queue.settled(machine.details["task"])
        return job.ends_at if job is not None and job.ended else None

    def explain(self, task_id: str, outcome: Outcome) -> Outcome:
        """The outcome by Slurm's own word, where the task was ended from outside."""
        if outcome.cause not in _FROM_OUTSIDE:
            return outcome
        with suppress(MlcdError):
            job = self._queue.settled(task_id)
            if job is not None:
                preempted = self._slurm.preempted(job.id)
                told = explained(outcome, job, preempted)
                return replace(told, node=outcome.node, exit_code=outcome.exit_code)
        return outcome

    # ------------------------------------------------------------------------------------------- submitting

    def _submit(self, task_id: str, job_id: str, deployment: Deployment) -> int:
        base = self._base(task_id)
        request, script = self._request(task_id, job_id, deployment, base), self._script(base)
        self._make_folder(base)
        words = sbatch_words(request)
        self._refuse_late(words, script)
        self._notes.note("submits", "yes")
        self.may_have_rented = True
        number = self._slurm.submit(words, script)
        self._queue.forget()
        return number

    def _request(self, task_id: str, job_id: str, deployment: Deployment, base: str) -> Request:
        ours, kind = self._settings, self._kind(deployment.offer.instance.name)
        return Request(
            comment=Comment(task_id, job_id, str(deployment)),
            kind=kind,
            nodes=deployment.nodes,
            minutes=minutes_of(self._wanted, self._grace_seconds, kind.max_seconds, ours.hours),
            grace_seconds=self._grace_seconds,
            base=base,
            account=ours.account,
            qos=ours.qos,
            options=ours.options,
        )

    def _script(self, base: str) -> str:
        # The first nodes must not go while they wait for the last.
        lease_seconds = max(self.lease_seconds, REPORT_SECONDS)
        return batch_script(base, self.python, self._settings.before, lease_seconds)

    def _kind(self, name: str) -> Kind:
        for kind in self._slurm.kinds(self._settings.qos):
            if kind.name == name:
                return kind
        raise NoCapacityError(f"Slurm has no nodes '{name}' now.", "`mlcd offers --cloud slurm` lists what there is.")

    def _make_folder(self, base: str) -> None:
        """Private: what agents are told has the job's secrets for a moment."""
        where = shlex.quote(base)  # chmod fails where another user has made it
        ran = self._login.run(f"umask 077 && mkdir -p {where} && chmod 700 {where}")
        if ran.code:
            raise RefusedError(f"{base} cannot be made: {ran.output.strip()[-300:]}", "Set slurm.folder.")
        self._login.write(f"{base}/host.py", Path(host.__file__).read_bytes())

    def _refuse_late(self, words: Sequence[str], script: str) -> None:
        """Submit nothing that the scheduler expects to start too late."""
        starts_at = self._slurm.expected_start(words, script)
        if starts_at is not None and starts_at - time.time() > self._patience_seconds:
            raise NoCapacityError(
                f"Slurm expects to start it in {show_duration(starts_at - time.time())}, and it can wait for "
                f"{show_duration(self._patience_seconds)}.",
                WAIT_HINT,
            )

    def _refuse_hopeless(self, job: JobRow, waited: float) -> None:
        error = refusal_of_waiting(job)
        if error is not None:
            raise error
        if waited > self._patience_seconds:
            raise NoCapacityError(
                f"Job {job.id} has waited for {show_duration(waited)} in Slurm's queue ({job.reason}).", WAIT_HINT
            )

    @property
    def _patience_seconds(self) -> float:
        """How long the task can wait in the queue: half of the time that it has must be left for its work."""
        limit = self._wanted.max_seconds
        half = math.inf if limit is None else max(SCHEDULING_SECONDS, limit / 2)
        return min(self._settings.wait_seconds, half)

    # ------------------------------------------------------------------------------------------- looking

    # ------------------------------------------------------------------------------------------- what nodes report

    def _located(self, machine: Machine, rank: int, job: JobRow) -> Machine:
        """The machine with what its node has reported; it costs money from the moment that Slurm started the job."""
        asked_at = float(machine.details["asked_at"])  # Slurm counts in whole seconds
        machine = replace(machine, billed_from=max(asked_at, job.started_at or time.time()))
        if machine.host or job.state != "RUNNING":
            return machine
        text = self._login.read(f"{self._base(machine.details['task'])}/node-{rank}/facts.json")
        facts = json.loads(text) if text else {}
        return replace(machine, host=facts["node"], address=facts["address"]) if facts.get("job") == job.id else machine

    def _log(self, task_id: str) -> str:
        text = self._login.read(f"{self._base(task_id)}/slurm.log") or b""
        return text.decode(errors="replace").strip()[-500:] or "its log is empty"

    def _base(self, task_id: str) -> str:
        """The folder of a task, which login node and nodes share."""
        if not self._folder:
            self._folder = expanded(self._login, self._settings.folder)
        return f"{self._folder}/{job_name(task_id)}"


def expanded(login: Reach, folder: str) -> str:
    """A folder of the login node with its home in the place of `~`."""
    if folder.startswith("/"):
        return folder.rstrip("/")
    if not folder.startswith("~/"):
        raise UserError(f"slurm.folder is '{folder}', which is no absolute path.", "Let it begin with / or ~/.")
    ran = login.run('cd && echo "home=$PWD"')
    home = ran.output.rpartition("home=")[2].strip()
    if ran.code or not home.startswith("/"):
        raise UnreachableError(f"The login node does not tell its home: {ran.output.strip()[-300:]}")
    return (home + folder[1:]).rstrip("/")


def open_machines(home: Path, options: Mapping[str, Any], notes: Notes) -> SlurmMachines:
    """For the runner."""
    return SlurmMachines(home, options, notes)


@contextmanager
def _patiently() -> Iterator[None]:
    """A login node that does not answer is asked again: a job may wait longer than a network is away."""
    try:
        yield
    except UnreachableError as error:
        raise BusyError(error.message, error.hint) from error
