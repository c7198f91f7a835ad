"""What Slurm says of a task's jobs, asked no more often than needed."""

from __future__ import annotations

import time
from dataclasses import dataclass

from mlcd.clouds.remote.base import Notes
from mlcd.clouds.slurm.commands import Slurm
from mlcd.clouds.slurm.script import job_name
from mlcd.clouds.slurm.states import outcome_of
from mlcd.clouds.slurm.tables import JobRow

LOOK_SECONDS = 1.0  # all questions within so long have the same answer
LONGEST_LOOK_SECONDS = 15.0  # in a long queue
SETTLE_SECONDS = 20.0  # for a job that is completing to be over


@dataclass(frozen=True)
class Look:
    """The jobs of a task's name as they stood at one moment."""

    jobs: tuple[JobRow, ...]
    at: float  # by the monotonic clock

    @property
    def open(self) -> tuple[JobRow, ...]:
        """Those that are not over: the task's own, and one more where sbatch was killed unheard."""
        return tuple(job for job in self.jobs if not job.ended)

    def job(self, number: int | None) -> JobRow | None:
        """The one of that number, or else the first that is not over."""
        return next((job for job in self.jobs if job.id == number), None) if number else next(iter(self.open), None)


class JobQueue:
    """The jobs of tasks, as Slurm's queue and its records have them."""

    def __init__(self, slurm: Slurm, notes: Notes) -> None:
        self._slurm = slurm
        self._notes = notes
        self._looks: dict[str, Look] = {}

    @property
    def number(self) -> int | None:
        """Of the task's job; None: nobody has submitted it yet, or nobody has heard of it."""
        noted = self._notes.read_notes().get("job")
        return int(noted) if noted else None

    def look(self, task_id: str, seconds: float = LOOK_SECONDS) -> Look:
        """All jobs of the task's name; an answer is good for so many seconds."""
        known = self._looks.get(task_id)
        if known is None or time.monotonic() - known.at > seconds:
            jobs = self._slurm.jobs(job_name(task_id))
            known = self._looks[task_id] = Look(tuple(jobs), time.monotonic())
        return known

    def forget(self) -> None:
        """What was seen holds no more."""
        self._looks.clear()

    def job(self, task_id: str) -> JobRow | None:
        """The task's job, while the queue knows it."""
        return self.look(task_id).job(self.number)

    def settled(self, task_id: str) -> JobRow | None:
        """The job once it is completing no more, which shows how it ended."""
        give_up_at = time.monotonic() + SETTLE_SECONDS
        while True:
            job = self.job(task_id) or self._on_record(task_id)
            if job is None or job.state != "COMPLETING" or time.monotonic() > give_up_at:
                return job
            time.sleep(LOOK_SECONDS)

    def _on_record(self, task_id: str) -> JobRow | None:
        """What accounting says of a job that the queue has forgotten."""
        number = self.number
        return next((job for job in self._slurm.ended(job_name(task_id)) if job.id == number), None)


def how_it_ended(task_id: str, job: JobRow | None) -> str:
    """Slurm's word on the end of a task's job."""
    told = outcome_of(job) if job is not None else None
    return told.reason if told is not None else f"Slurm knows no job {job_name(task_id)} any more"


def pause_after(waited: float) -> float:
    """How long an answer is good for: the longer a job waits, the less often Slurm is asked."""
    return min(LONGEST_LOOK_SECONDS, max(LOOK_SECONDS, waited / 20.0))
