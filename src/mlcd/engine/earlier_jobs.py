"""What earlier jobs have learnt, for the next one.

    same program      its trials are known from the start (see programs.same_program)
    similar job       another program whose stored model is like this one's, once a probe has shown it
                      (see forecast.similarity): its trials are known from then on
    similar program   the same script with other arguments or variables, as a search over hyperparameters runs it:
                      a strategy that asks for it may reuse its models (Scavenger's mode none)
    bandwidths        what a worker of the same program received from parameter servers is known, from every such job whose
                      files have not changed since: another model is of another size
    same training     it reached this very target before: the samples that it took are known
    neither           the strategy's own beliefs must do

A strategy weighs earlier trials less than its own. Only jobs of the same owner are looked at.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace

from mlcd.core.records import JobRecord
from mlcd.core.study import EarlierJob, Study, WorkerBandwidth
from mlcd.core.trial import Trial, of_search
from mlcd.engine.context import JobContext
from mlcd.engine.programs import fingerprint, has_changed, likeness, same_program, similar_program
from mlcd.errors import NotFoundError
from mlcd.forecast.profiles import laws_of
from mlcd.forecast.similarity import Match, find_match
from mlcd.forecast.stored import StoredModel, from_document
from mlcd.search.bandwidth import bandwidths_in
from mlcd.store import Store

MOST_JOBS_LOOKED_AT = 200
MOST_STUDIES = 3
MOST_OTHERS = 20  # of other programs, whose models tell of machines on which this one was not tried

SIMILAR = "the same program with other arguments or variables"

Trials = tuple[Trial, ...]


@dataclass(frozen=True)
class Past:
    """An earlier job with what it left."""

    job_id: str
    trials: Trials
    model: StoredModel | None
    likeness: str = ""  # empty: of another program
    similar: bool = False  # the same program with other arguments or variables
    changed: bool = False  # its files have, since then


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
    def other_jobs(self) -> tuple[EarlierJob, ...]:
        """The jobs in which something was measured, those of the same program first, then similar ones, then the rest."""
        similar = [past for past in self.pasts if past.similar and past.trials]
        rest = [past for past in self.pasts if not past.likeness and not past.similar and past.trials]
        others = (*((past, past.likeness) for past in self.same), *((past, SIMILAR) for past in similar[:MOST_STUDIES]))
        told = (*others, *((past, "") for past in rest[:MOST_OTHERS]))
        return tuple(EarlierJob(past.job_id, past.trials, words) for past, words in told)

    def used(self, own: Trials) -> tuple[str, ...]:
        """The jobs that a strategy gets to see."""
        match = self.match(own)
        alike = () if match is None else (match.model.job,)
        return tuple(dict.fromkeys((*(job.name for job in self.other_jobs), *alike)))

    def with_jobs(self, study: Study, own: Trials) -> Study:
        """The study with what earlier jobs showed."""
        return replace(
            study, earlier=(*study.earlier, *self.studies(own)), other_jobs=self.other_jobs, bandwidths=self.bandwidths
        )

    @property
    def bandwidths(self) -> tuple[WorkerBandwidth, ...]:
        """What a worker of the same, unchanged program received from parameter servers, newest first."""
        same = (past for past in self.pasts if past.likeness and not past.changed)
        return tuple(one for past in same for one in bandwidths_in(past.trials, past.job_id))

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


def earlier_as_used(store: Store, record: JobRecord) -> Earlier:
    """What the job's search has looked at, whatever other jobs there are by now; jobs that were deleted are left out."""
    pasts = []
    for job_id in record.learnt_from:
        with suppress(NotFoundError):
            pasts.append(_past(record, store.job(job_id), store.trials(job_id)))
    return Earlier(record, tuple(pasts))


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
    same = same_program(record, other)
    similar = not same and similar_program(record, other)
    words, changed = (likeness(record, other), has_changed(record, other)) if same else ("", False)
    return Past(other.id, begun, model, words, similar, changed)


def _say_once(context: JobContext, earlier: Earlier, message: str, job_id: str) -> None:
    """Once for each job, whatever controllers died in between."""
    if job_id not in earlier.told:
        earlier.told.add(job_id)
        context.add_event_once("learn", message, {"job": job_id})
