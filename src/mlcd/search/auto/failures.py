"""How likely a deployment is to fail, learnt from those that were tried.

Every trial tells something of similar deployments. With counts s of successes and f of failures, each weighted by its
similarity, and one success of doubt,

    chance of failure = (a + f) / (a + 1 + s + f),        a = 0.01

The similarity of two deployments is 0.1, more within a family and a type, and falls with the distance in log nodes
and log batch size. Out of memory tells more: it excludes what would need at least as much (`trials.exclusions`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mlcd.core.study import Study
from mlcd.core.trial import FailureKind, Trial
from mlcd.search.arrays import Floats, Mask, Rows, distinct_offers
from mlcd.search.auto.features import Features, describe
from mlcd.search.trials import exclusions, tells_of_gpus

_DOUBT = 0.01
_ANYWHERE, _FAMILY, _TYPE = 0.1, 0.2, 0.4  # similarity, added up
_NODES_LENGTH, _BATCH_LENGTH = 1.0, 1.5
_EXCLUDED = 0.98
# These failures say nothing about the program.
_LUCK = (
    FailureKind.LOST,
    FailureKind.NO_CAPACITY,
    FailureKind.REFUSED,
    FailureKind.NOT_STARTED,
    FailureKind.UNFIT,
)


def chance_of_failure(study: Study, space: Features) -> Floats:
    """Of each deployment of the space that was not tried: (N,)."""
    failures = [t for t in study.trials if _tells_of_the_program(t)]
    successes = [trial for trial in study.trials if trial.measurement is not None]
    failed = _DOUBT + _similarity(space, failures)
    if not successes:
        failed = failed + len(failures)  # a program that has never run is likely to be at fault itself
    return failed / (failed + 1.0 + _similarity(space, successes))


def raise_for_exclusions(study: Study, rows: Rows, chances: Floats) -> Floats:
    """The chances of these rows, raised where another failure says that they would fail too."""
    rules = exclusions(study)
    if rules.empty:
        return chances
    full = np.array([rules.excludes(study.space[row]) for row in rows], dtype=bool)
    return np.where(full, np.maximum(chances, _EXCLUDED), chances)


def lacks_gpu(study: Study) -> Mask:
    """Where the program cannot run, since it needs a GPU and there is none: (N,)."""
    if not exclusions(study).needs_gpu:
        return np.zeros(len(study.space), dtype=bool)
    offers, rows = distinct_offers(study.space)
    return np.array([not offer.instance.gpus for offer in offers], dtype=bool)[rows]


def _tells_of_the_program(trial: Trial) -> bool:
    """Whether it failed and may do so elsewhere; that it needs a GPU excludes what has none, and says no more."""
    return trial.failure is not None and trial.failure.reason not in _LUCK and not tells_of_gpus(trial)


def _similarity(space: Features, trials: Sequence[Trial]) -> Floats:
    """Summed over the trials: (N,)."""
    total = np.zeros(len(space))
    tried = describe([trial.deployment for trial in trials])
    for row in range(len(tried)):
        nodes = (space.log_nodes - tried.log_nodes[row]) / _NODES_LENGTH
        batch = (space.log_batch - tried.log_batch[row]) / _BATCH_LENGTH
        family = _FAMILY * (space.family_id == tried.family_id[row])
        similarity = _ANYWHERE + family + _TYPE * (space.type_id == tried.type_id[row])
        total += similarity * np.exp(-0.5 * (nodes**2 + batch**2))
    return total
