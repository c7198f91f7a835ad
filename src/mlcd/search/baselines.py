"""The two searches that think nothing: some deployments at random, or all of them. Both keep the reserve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from mlcd.core.machines import Deployment
from mlcd.core.study import Stop, Study
from mlcd.search.arrays import Rows
from mlcd.search.candidates import affordable
from mlcd.search.limits import best_feasible, room_for_probes
from mlcd.search.speed_model import SpeedBeliefs
from mlcd.search.table import study_view


@dataclass(frozen=True)
class RandomSearch(SpeedBeliefs):
    """k deployments drawn by the study's seed, then the best of them."""

    k: Annotated[int, "how many deployments are tried"] = 10

    def suggest(self, study: Study) -> Deployment | Stop:
        """The next one drawn, or the best measured after k trials."""
        if len(study.trials) + len(study.pending) >= self.k:
            return Stop(_choice(study), f"{self.k} deployments drawn at random were tried")
        order = np.random.default_rng(study.seed).permutation(len(study.space))
        return _first_within_reach(study, order)


@dataclass(frozen=True)
class ExhaustiveSearch(SpeedBeliefs):
    """Every deployment once, in the order of the space, then the best of all."""

    nodes: Annotated[Sequence[int], "try only these numbers of nodes; empty: all"] = ()

    def suggest(self, study: Study) -> Deployment | Stop:
        """The first one not tried, or the best measured when nothing is left."""
        rows = [row for row, each in enumerate(study.space) if not self.nodes or each.nodes in self.nodes]
        return _first_within_reach(study, np.array(rows, dtype=np.intp))


def _first_within_reach(study: Study, order: Rows) -> Deployment | Stop:
    incumbent = best_feasible(study)
    if not study.probes_left:
        return Stop(_choice(study), f"all {study.max_probes} probes that were allowed are used")
    view = study_view(study)
    within_reach = view.open & affordable(view, room_for_probes(study, incumbent))
    rows = order[within_reach[order]]
    if len(rows):
        return study.space[int(rows[0])]
    held = "what is left of the limits is held for the training"
    return Stop(_choice(study), held if view.open[order].any() else "everything was tried")


def _choice(study: Study) -> Deployment | None:
    best = best_feasible(study)
    return best.deployment if best is not None else None
