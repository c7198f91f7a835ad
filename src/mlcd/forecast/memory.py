"""How much memory a node needs for its share of the batch, as probes saw it (Scavenger, section V.D and figure 12).

Machines that are cut to measure are bought with what the batch needs: between two measured shares the peaks are joined by a
line, below the smallest its peak counts, and beyond the largest nothing is known. Nor is it where a machine that was so cut
had too little: there, and for larger shares, the whole machine is taken.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil, inf

from mlcd.core.machines import Deployment
from mlcd.core.trial import FailureKind, Trial

MARGIN = 1.25  # above the peak of a probe: a training of hours meets longer samples and saves checkpoints
STEP_GIB = 0.25  # that memory is sold by

Peaks = tuple[tuple[float, float], ...]  # samples of a node's piece, GiB; ascending in both


@dataclass(frozen=True)
class MemoryNeed:
    """The peaks that were seen, on nodes without GPUs and with them."""

    without_gpus: Peaks = ()
    with_gpus: Peaks = ()

    def gib(self, deployment: Deployment) -> float:
        """Memory to buy for each node; 0: not known."""
        peaks, share = self._peaks(deployment), node_share(deployment, deployment.batch_size)
        if share is None or not peaks or share > peaks[-1][0] * (1.0 + 1e-9):
            return 0.0
        steps = ceil(MARGIN * _peak_at(share, peaks) / STEP_GIB)
        return min(steps * STEP_GIB, deployment.offer.instance.memory_gib or inf)

    def cut(self, deployment: Deployment) -> Deployment:
        """The deployment with just the memory that its batch needs, as far as that is known."""
        return replace(deployment, memory_gib=self.gib(deployment))

    def _peaks(self, deployment: Deployment) -> Peaks:
        return self.with_gpus if deployment.offer.instance.gpus else self.without_gpus


def memory_need(trials: Iterable[Trial]) -> MemoryNeed:
    """What the trials tell; of a batch size that nobody knows, nothing."""
    seen: dict[bool, list[tuple[float, float]]] = defaultdict(list)
    wrong: dict[bool, float] = defaultdict(lambda: inf)  # the least share at which a cut machine had too little
    for trial in trials:
        found, share, gpus = trial.measurement, _share_of(trial), trial.deployment.offer.instance.gpus > 0
        if share is not None and found is not None and found.usage.peak_memory_gib > 0:
            seen[gpus].append((share, found.usage.peak_memory_gib))
        elif share is not None and _lacked_its_cut(trial):
            wrong[gpus] = min(wrong[gpus], share)
    return MemoryNeed(*(_rising([one for one in seen[gpus] if one[0] < wrong[gpus]]) for gpus in (False, True)))


def _share_of(trial: Trial) -> float | None:
    found = trial.measurement
    return node_share(trial.deployment, trial.deployment.batch_size or (found.conditions.batch_size if found else 0.0))


def _lacked_its_cut(trial: Trial) -> bool:
    failure = trial.failure
    return failure is not None and failure.reason is FailureKind.OUT_OF_MEMORY and trial.deployment.is_cut


def node_share(deployment: Deployment, batch: float | None) -> float | None:
    """Samples that a node holds at once; None: the program keeps its batch size to itself."""
    return batch / (deployment.workers * deployment.accumulation) if batch else None


def _peak_at(share: float, peaks: Peaks) -> float:
    """On the line between the two nearest; below the smallest its own."""
    for (less, low), (more, high) in pairwise(peaks):
        if less <= share <= more:
            return low + (high - low) * (share - less) / (more - less)
    return peaks[0][1] if share < peaks[0][0] else peaks[-1][1]


def _rising(seen: list[tuple[float, float]]) -> Peaks:
    """The largest peak of each share or a smaller one: more samples never need less."""
    most, peaks = 0.0, dict[float, float]()
    for share, gib in sorted(seen):
        most = peaks[share] = max(most, gib)
    return tuple(peaks.items())
