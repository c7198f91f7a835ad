"""What earlier studies of the same program have learnt, for the next one.

Two jobs are of the same program when they run the same command in a folder of the same name on the same platform
and, on a replayed cloud, the same recording. Their likeness is not complete (the code may have changed): a strategy
that uses earlier trials weighs them less than its own.
"""

from __future__ import annotations

from pathlib import Path

from mlcd.core.records import JobRecord
from mlcd.core.trial import Trial
from mlcd.engine.desk import Desk

MOST_JOBS_LOOKED_AT = 200
MOST_STUDIES = 3


def learn_from_earlier(desk: Desk, record: JobRecord) -> tuple[tuple[Trial, ...], ...]:
    """The trials of the newest studies of the same program, and word of it."""
    if not record.job.search.learn:
        return ()
    past = desk.store.past_trials(MOST_JOBS_LOOKED_AT)
    alike = [
        (other.id, trials) for other, trials in past if other.id != record.id and same_program(record, other)
    ]
    chosen = [(job_id, trials) for job_id, trials in alike if any(t.measurement for t in trials)][
        :MOST_STUDIES
    ]
    if chosen and not desk.store.trials(desk.job_id):
        names = ", ".join(job_id for job_id, _ in chosen)
        count = sum(len(trials) for _, trials in chosen)
        desk.say("learn", f"{count} trials of the same program are known from {names}", jobs=names)
    return tuple(trials for _, trials in chosen)


def same_program(one: JobRecord, other: JobRecord) -> bool:
    """Whether what was learnt of the one says something of the other."""
    return _program(one) == _program(other)


def _program(record: JobRecord) -> tuple[str, ...]:
    job, options = record.job, record.cloud_options
    place = Path(job.workdir).name
    return (job.run, place, job.platform, record.owner, options.get("trace", ""), options.get("workload", ""))
