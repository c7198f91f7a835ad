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
from mlcd.search.arrays import Floats, Rows
from mlcd.search.auto.features import Features, describe
from mlcd.search.trials import exclusions

_DOUBT = 0.01
_ANYWHERE, _FAMILY, _TYPE = 0.1, 0.2, 0.4  # similarity, added up
_NODES_LENGTH, _BATCH_LENGTH = 1.0, 1.5
_EXCLUDED = 0.98
# These failures say nothing about the program.
_LUCK = (FailureKind.LOST, FailureKind.NO_CAPACITY, FailureKind.REFUSED, FailureKind.NOT_STARTED)


def chance_of_failure(study: Study, space: Features) -> Floats:
    """Of each deployment of the space that was not tried: (N,)."""
    failures = [t for t in study.trials if t.failure is not None and t.failure.reason not in _LUCK]
    successes = [trial for trial in study.trials if trial.measurement is not None]
    failed = _DOUBT + _similarity(space, failures)
    if not successes:
        failed = failed + len(failures)  # a program that has never run is likely to be at fault itself
    return failed / (failed + 1.0 + _similarity(space, successes))


def raise_for_memory(study: Study, rows: Rows, chances: Floats) -> Floats:
    """The chances of these rows, raised where another deployment ran out of memory that had as much of it."""
    rules = exclusions(study)
    if rules.empty:
        return chances
    full = np.array([rules.excludes(study.space[row]) for row in rows], dtype=bool)
    return np.where(full, np.maximum(chances, _EXCLUDED), chances)


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
