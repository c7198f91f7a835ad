"""Models that earlier jobs of the same or a similar program left: whether one is good enough to do without any probe.

How good it is, is asked of itself: each of its profiles is foretold from the others of its family, which were made elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from statistics import fmean

from mlcd.core.study import EarlierJob, Study
from mlcd.core.trial import Trial
from mlcd.forecast.design import FIRST_ROUND
from mlcd.forecast.parallel import Placement
from mlcd.search.space_models import Profiles, families_of, fitted, profiles_by_family
from mlcd.search.trials import averaged


@dataclass(frozen=True)
class Reuse:
    """An earlier job whose models may stand in, and how well they foretell its own profiles."""

    job: EarlierJob
    profiles: int
    error: float  # mean of |foretold ÷ measured − 1|

    def __str__(self) -> str:
        how = f"{self.profiles} profiles, each foretold from the others within {self.error:.1%} on average"
        return f"the models of {self.job.name} ({self.job.likeness}) rest on {how}"


def with_stored_model(study: Study, good_enough: float) -> Reuse | None:
    """The newest job of the same program, or else of a similar one, whose models are good enough."""
    return next((each for each in _of_the_program(study) if each.error <= good_enough), None)


def why_none(study: Study, good_enough: float) -> str:
    """Why no stored model was used."""
    best = min(_of_the_program(study), key=lambda each: each.error, default=None)
    if best is None:
        return f"no earlier job of this program left {FIRST_ROUND} profiles on one of these families of machines"
    if best.error <= good_enough:
        return f"{best}, but nothing was expected to keep the limits by them"
    return f"{best}, more than {good_enough:.0%}"


def _of_the_program(study: Study) -> Iterable[Reuse]:
    families = tuple(families_of(study.space))
    for job in study.other_jobs:
        judged = _errors(job.trials, families) if job.likeness else ()
        if judged:
            count = sum(len(_places(found)) for found, _ in judged)
            yield Reuse(job, count, fmean(error for _, error in judged))


@lru_cache(maxsize=64)
def _errors(trials: tuple[Trial, ...], families: tuple[str, ...]) -> tuple[tuple[Profiles, float], ...]:
    """The families with enough profiles, and how well each profile is foretold from the others."""
    known = profiles_by_family(averaged(trials))
    enough = (known[family] for family in families if len(_places(known.get(family, ()))) >= FIRST_ROUND)
    return tuple((profiles, _left_out_error(profiles)) for profiles in enough)


def _left_out_error(profiles: Profiles) -> float:
    errors = []
    for out in profiles:
        others = tuple(each for each in profiles if each.placement != out.placement)
        foretold = fitted(_places(profiles), others).step(out.placement).value
        errors.append(abs(foretold / out.step_seconds - 1.0))
    return fmean(errors)


def _places(profiles: Profiles) -> tuple[Placement, ...]:
    return tuple(dict.fromkeys(profile.placement for profile in profiles))
