"""What earlier jobs have learnt, for the next one.

    same program      its trials are known from the start (see programs.same_program)
    similar job       another program whose stored model is like this one's, once a probe has shown it
                      (see forecast.similarity): its trials are known from then on
    bandwidths        what a worker of the same program received from parameter servers is known, from every such job
    same training     it reached this very target before: the samples that it took are known
    neither           the strategy's own beliefs must do

A strategy weighs earlier trials less than its own. Only jobs of the same owner are looked at.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mlcd.core.records import JobRecord
from mlcd.core.study import WorkerBandwidth
from mlcd.core.trial import Trial, of_search
from mlcd.engine.context import JobContext
from mlcd.engine.programs import fingerprint, likeness, same_program
from mlcd.forecast.profiles import laws_of
from mlcd.forecast.similarity import Match, find_match
from mlcd.forecast.stored import StoredModel, from_document
from mlcd.search.bandwidth import bandwidths_in

MOST_JOBS_LOOKED_AT = 200
MOST_STUDIES = 3

Trials = tuple[Trial, ...]


@dataclass(frozen=True)
class Past:
    """An earlier job with what it left."""

    job_id: str
    trials: Trials
    model: StoredModel | None
    likeness: str = ""  # empty: of another program


@dataclass
class Earlier:
    """What earlier jobs leave for this one."""

    record: JobRecord
    pasts: tuple[Past, ...] = ()
    told: set[str] = field(default_factory=set)  # jobs of which the user knows
    _matches: dict[int, Match | None] = field(default_factory=dict)  # by the number of own trials

    def studies(self, own: Trials) -> tuple[Trials, ...]:
        """Trials of the same program, newest first; then those of the most similar other job."""
        same = [past.trials for past in self.same]
        match = self.match(own)
        alike = [past.trials for past in self.pasts if match is not None and past.job_id == match.model.job]
        return (*same, *alike)

    @property
    def same(self) -> list[Past]:
        """The newest studies of the same program in which something was measured."""
        measured = (past for past in self.pasts if past.likeness and any(t.measurement for t in past.trials))
        return [past for past, _ in zip(measured, range(MOST_STUDIES), strict=False)]

    @property
    def bandwidths(self) -> tuple[WorkerBandwidth, ...]:
        """What a worker of the same program received from parameter servers, newest first."""
        return tuple(one for past in self.pasts if past.likeness for one in bandwidths_in(past.trials, past.job_id))

    @property
    def trained(self) -> list[StoredModel]:
        """Models of the same training, newest first."""
        mine = fingerprint(self.record)
        return [past.model for past in self.pasts if past.model is not None and past.model.fingerprint == mine]

    def match(self, own: Trials) -> Match | None:
        """The job of another program that is most like what was measured of this one, if any is enough."""
        stored = [past.model for past in self.pasts if past.model is not None and not past.likeness]
        if not stored or not any(trial.measurement for trial in own):
            return None
        if len(own) not in self._matches:
            self._matches[len(own)] = find_match(self._model(own), stored)
        return self._matches[len(own)]

    def _model(self, own: Trials) -> StoredModel:
        """What this job looks like by now."""
        noise = noise_in(own)
        smallest = min(self.record.job.batch_sizes.choices, default=1)
        return StoredModel(self.record.id, fingerprint(self.record), laws_of(own), noise, noise, smallest)


def learn_from_earlier(context: JobContext, record: JobRecord) -> Earlier:
    """What is known from before; nothing where the job does not want it."""
    if not record.job.search.learn:
        return Earlier(record)
    found = context.store.lessons(MOST_JOBS_LOOKED_AT, [record.owner])
    past = (_past(record, other, trials) for _, other, trials in found if other.id != record.id)
    return Earlier(record, tuple(past))


def report_earlier(context: JobContext, earlier: Earlier, own: Trials) -> None:
    """Say once what is taken over from whom, and how alike it is."""
    for past in earlier.same:
        count = f"{len(past.trials)} {'trial' if len(past.trials) == 1 else 'trials'}"
        _say_once(context, earlier, f"{count} known from {past.job_id}: {past.likeness}", past.job_id)
    match = earlier.match(own)
    if match is not None:
        words = f"Trials of another program are known: this job is {match.reason}"
        _say_once(context, earlier, words, match.model.job)


def noise_in(trials: Trials) -> float | None:
    """The gradient noise scale that the newest probe with a stable one showed."""
    scales = [trial.measurement.noise_scale for trial in trials if trial.measurement is not None]
    return next((scale for scale in reversed(scales) if scale is not None), None)


def _past(record: JobRecord, other: JobRecord, trials: Trials) -> Past:
    model = from_document(other.learnt) if other.learnt else None
    begun = of_search(trials, 0)  # a new job begins as that one did
    return Past(other.id, begun, model, likeness(record, other) if same_program(record, other) else "")


def _say_once(context: JobContext, earlier: Earlier, message: str, job_id: str) -> None:
    """Once for each job, whatever controllers died in between."""
    if job_id not in earlier.told:
        earlier.told.add(job_id)
        context.add_event_once("learn", message, {"job": job_id})
