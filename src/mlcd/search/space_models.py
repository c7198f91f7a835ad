"""Scavenger's models of a study: whole trainings on deployments that nobody has tried.

    τ   step time: the parallel model of a family of instance types, fitted to the job's own probes and to those of earlier
        jobs of the same program (forecast.step_fit); of a family without any, shapes from other jobs (forecast.universal)
    n   samples to train at a batch size: the statistical model, which the study holds (`samples_at`, `samples_spread`)
    T   = n ÷ B · τ                                                               (equations 3 and 4 of the paper)

A program that hides its batch size has one sample in a step: its speeds follow the same law.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import exp, fsum, hypot, log, sqrt

from mlcd.core.machines import Deployment
from mlcd.core.study import Belief, Study
from mlcd.core.trial import Trial
from mlcd.forecast.design import FIRST_ROUND
from mlcd.forecast.estimate import Estimate, spread_around
from mlcd.forecast.parallel import Placement, StepLaw
from mlcd.forecast.profiles import laws_of, placement_of
from mlcd.forecast.step_fit import Profile, StepModel, fit_steps
from mlcd.forecast.training_forecast import speed_error
from mlcd.forecast.training_model import StepTimes, TrainingModel
from mlcd.forecast.universal import Probe, universal_model
from mlcd.search.trials import averaged, measured_trials

LEVEL_SPREAD = 0.3  # of the logarithm: how far the same or a similar program's steps may be off before any was seen
HIDDEN_BATCH = 1  # stands for a batch size that the program keeps to itself

Profiles = tuple[Profile, ...]


@dataclass(frozen=True)
class SpaceModels:
    """Step times by family, the samples to train, and how much was seen of each family."""

    training: TrainingModel
    profiles: Mapping[str, Profiles]  # by family; a family without any is known from other jobs alone
    unsteady: Mapping[str, float]  # by family: standard deviation of the logarithm that its probes leave to a training
    more_spread: float = 0.0  # the same, of models that are another job's

    @property
    def instances(self) -> set[str]:
        """The instance types that were profiled, by this job or by earlier ones of its program."""
        return {profile.placement.instance for profiles in self.profiles.values() for profile in profiles}

    def knows(self, deployment: Deployment) -> bool:
        """Whether a model speaks of this deployment."""
        return place(deployment).family in self.training.steps

    def speed(self, deployment: Deployment) -> Estimate:
        """Samples a second: B ÷ τ."""
        placement = place(deployment)
        step = self.training.steps[placement.family].step(placement)
        return spread_around(placement.batch / step.value, self._spread(deployment, step))

    def training_seconds(self, deployment: Deployment) -> Estimate:
        """T, without starts and losses."""
        working = self.training.training_seconds(place(deployment))
        return spread_around(working.value, self._spread(deployment, working))

    def _spread(self, deployment: Deployment, foretold: Estimate) -> float:
        """A law is fitted to means; a training sees what lies around them as well."""
        unsteady = self.unsteady.get(place(deployment).family, 0.0)
        return hypot(foretold.log_spread, unsteady, self.more_spread)

    def belief(self, deployment: Deployment) -> Belief:
        """The same, as the search tells it."""
        speed = self.speed(deployment)
        return Belief(deployment, speed.value, speed.low, speed.high, modelled=True)


def space_models(study: Study, least_profiles: int = 1, more_spread: float = 0.0) -> SpaceModels:
    """The models of all families of which so many profiles are known, and of those that other jobs tell of."""
    places = families_of(study.space)
    own = profiles_by_family(measured_trials(study))
    before = [_at_level(places, own, profiles_by_family(averaged(trials))) for trials in study.earlier]
    profiles = {family: _joined(own.get(family, ()), (past.of(family) for past in before)) for family in places}
    seen = {family: found for family, found in profiles.items() if len(found) >= max(1, least_profiles)}
    steps: dict[str, StepTimes] = {family: fitted(places[family], found) for family, found in seen.items()}
    steps |= _from_other_jobs(study, places, own, [family for family in places if family not in steps])
    unsteady = _unsteady(study, steps)
    for family in set(seen) - set(own):
        newest = next(past for past in before if past.of(family))
        unsteady[family] = hypot(unsteady[family], newest.spread)
    return SpaceModels(TrainingModel(steps, WorkOf(study)), seen, unsteady, more_spread)


def model_beliefs(study: Study) -> tuple[Belief, ...]:
    """What the models say of the untried deployments of a job with several batch sizes, where they were seen enough of."""
    if len({deployment.batch_size for deployment in study.space}) < 2:
        return ()
    models = space_models(study, FIRST_ROUND)
    return tuple(models.belief(deployment) for deployment in study.space if models.knows(deployment))


@dataclass(frozen=True)
class WorkOf:
    """The statistical model as the study has it."""

    study: Study

    def samples(self, batch: int) -> Estimate:
        """Expected samples at this batch size."""
        value = self.study.samples_at.get(batch, self.study.samples)
        return spread_around(value, self.study.samples_spread.get(batch, 0.0))


@lru_cache(maxsize=8192)
def place(deployment: Deployment) -> Placement:
    """Where its step runs; parameter servers make a family of their own."""
    placement = placement_of(deployment, deployment.batch_size or HIDDEN_BATCH)
    if not deployment.servers:
        return placement
    served = f"{placement.family} with {deployment.servers} {deployment.of_servers.instance.name}"
    return replace(placement, family=served, nodes=deployment.workers)


@lru_cache(maxsize=256)
def fitted(places: tuple[Placement, ...], profiles: Profiles) -> StepModel:
    """The parallel model of a family, fitted once to the same profiles."""
    seen = (profile.placement for profile in profiles)
    return fit_steps(tuple(dict.fromkeys((*places, *seen))), profiles)


@lru_cache(maxsize=32)
def families_of(space: tuple[Deployment, ...]) -> Mapping[str, tuple[Placement, ...]]:
    """The placements of each family, each once."""
    found: dict[str, dict[Placement, None]] = defaultdict(dict)
    for deployment in space:
        placement = place(deployment)
        found[placement.family][placement] = None
    return {family: tuple(places) for family, places in found.items()}


def profiles_by_family(trials: Iterable[Trial]) -> dict[str, Profiles]:
    """What trials tell of step times, by family."""
    found: dict[str, list[Profile]] = defaultdict(list)
    for trial in trials:
        if trial.measurement is not None and trial.measurement.samples_per_second > 0:
            placement = place(trial.deployment)
            profile = Profile(placement, placement.batch / trial.measurement.samples_per_second)
            found[placement.family].append(profile)
    return {family: tuple(profiles) for family, profiles in found.items()}


def _unsteady(study: Study, families: Iterable[str]) -> dict[str, float]:
    """How far a training may be off a measured mean: by the job's own probes, or by earlier ones where there are none."""
    found: dict[str, list[float]] = defaultdict(list)
    for trials in (study.trials, *(study.earlier if not study.trials else ())):
        for trial in trials:
            if trial.measurement is not None:
                found[place(trial.deployment).family].append(speed_error(trial.measurement))
    overall = [error for errors in found.values() for error in errors]
    return {family: _root_mean_square(found.get(family, overall)) for family in families}


def _root_mean_square(errors: Sequence[float]) -> float:
    return sqrt(fsum(error**2 for error in errors) / len(errors)) if errors else 0.0


def _joined(own: Profiles, earlier: Iterable[Profiles]) -> Profiles:
    """The job's own profiles, and of other placements the newest of earlier jobs of its program."""
    found = {profile.placement: profile for profile in own}
    for profiles in earlier:
        for profile in profiles:
            found.setdefault(profile.placement, profile)
    return tuple(found.values())


@dataclass(frozen=True)
class _PastJob:
    """An earlier job's profiles as if its steps took as long as the job's own do."""

    profiles: Mapping[str, Profiles]  # by family
    spread: float  # of the logarithm of how many times as long they are taken to last

    def of(self, family: str) -> Profiles:
        """Those on a family."""
        return self.profiles.get(family, ())


def _at_level(
    places: Mapping[str, tuple[Placement, ...]], own: Mapping[str, Profiles], before: Mapping[str, Profiles]
) -> _PastJob:
    """An earlier job's profiles at the level of the job's own ones, by what both tell of the same places.

    Each of the own profiles counts by how sure the earlier job's model is of its place: what it does not know of the
    exchange is no difference between the jobs. None at all, and the earlier job is taken as it was.
    """
    gaps = [
        _gap(profile, fitted(_with(places[family], own[family]), before[family]).step(profile.placement))
        for family in own
        if family in before and family in places
        for profile in own[family]
    ]
    known = LEVEL_SPREAD**-2 + fsum(spread**-2 for _, spread in gaps)
    factor = exp(fsum(gap / spread**2 for gap, spread in gaps) / known)
    scaled = {
        family: tuple(Profile(one.placement, one.step_seconds * factor) for one in profiles)
        for family, profiles in before.items()
    }
    return _PastJob(scaled, known**-0.5 if own else 0.0)


def _gap(profile: Profile, foretold: Estimate) -> tuple[float, float]:
    """How many times as long the step took, as a logarithm, and how far off that may be."""
    return log(profile.step_seconds / foretold.value), foretold.log_spread


def _with(places: tuple[Placement, ...], profiles: Profiles) -> tuple[Placement, ...]:
    return tuple(dict.fromkeys((*places, *(profile.placement for profile in profiles))))


def _from_other_jobs(
    study: Study,
    places: Mapping[str, tuple[Placement, ...]],
    own: Mapping[str, Profiles],
    families: Sequence[str],
) -> dict[str, StepTimes]:
    """Families on which the job was never seen, but other jobs were, on those as on a family where it was."""
    others = [_laws(past.trials) for past in study.other_jobs]
    found: dict[str, StepTimes] = {}
    for family in families:
        here = next((one for one in own if any(one in laws and family in laws for laws in others)), None)
        if here is not None:
            pieces = min(placement.micro_batch for placement in places[here])
            found[family] = universal_model(_probe_of(own[here]), pieces, others)
    return found


def _probe_of(profiles: Profiles) -> Probe:
    """What the profiles tell by themselves: a large piece and a small one on the fewest devices, and several devices together.

    With a single device no time goes into exchanging gradients, so these three tell constant, load and exchange apart.
    """
    fewest = min(profile.placement.devices for profile in profiles)
    alone = sorted((each for each in profiles if each.placement.devices == fewest), key=_piece)
    whole, small = alone[-1], alone[0]
    probe = Probe(whole.placement, whole.step_seconds)
    if fewest > 1:
        return probe
    if small.placement.micro_batches == 1 and small.placement.micro_batch < whole.placement.micro_batch:
        probe = replace(probe, piece_samples=small.placement.micro_batch, piece_seconds=small.step_seconds)
    several = [each for each in profiles if each.placement.devices > 1]
    if not several:
        return probe
    together = min(several, key=lambda each: (each.placement.devices, each.placement.batch))
    return replace(probe, together=together.placement, together_seconds=together.step_seconds)


def _piece(profile: Profile) -> tuple[float, int]:
    """Ascending by the samples of a piece; of equal ones the fewest pieces last."""
    return profile.placement.micro_batch, -profile.placement.micro_batches


@lru_cache(maxsize=64)
def _laws(trials: tuple[Trial, ...]) -> Mapping[str, StepLaw]:
    return laws_of(trials)
