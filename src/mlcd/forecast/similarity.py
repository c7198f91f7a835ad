"""Which stored model may stand in for a job: the same, a similar one, or none.

distance   root mean square over what both jobs know, each difference in units of what jobs usually differ by:
           log α and log(β·m/α) at the largest micro-batch, on every family that both ran on;
           mean of log(S/α) over the grids that both ran on;  log of the noise scale ÷ smallest batch
similarity = exp(−distance): 1 the same, 0.37 as different as two jobs usually are
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import exp, log, sqrt

from mlcd.forecast.stored import StoredModel

ALPHA_SCALE, LOAD_SCALE, SYNC_SCALE, NOISE_SCALE = 1.5, 1.5, 0.5, 2.0
REUSE_FROM = 0.8  # a distance of 0.22: step times within about a third


@dataclass(frozen=True)
class Match:
    """A stored model that may stand in, and why."""

    model: StoredModel
    similarity: float
    reason: str


def find_match(seen: StoredModel, stored: Iterable[StoredModel]) -> Match | None:
    """The most similar stored model; None where none is similar enough, and the universal one must do."""
    matches = [Match(model, similarity(seen, model), describe(seen, model)) for model in stored]
    best = max(matches, key=lambda match: match.similarity, default=None)
    return best if best is not None and best.similarity >= REUSE_FROM else None


def similarity(one: StoredModel, other: StoredModel) -> float:
    """From 0 to 1; 0 where the two have nothing in common to be compared by."""
    if one.fingerprint and one.fingerprint == other.fingerprint:
        return 1.0
    apart = differences(one, other)
    if not any(name != "noise" for name in apart):
        return 0.0
    return exp(-sqrt(sum(value**2 for value in apart.values()) / len(apart)))


def differences(one: StoredModel, other: StoredModel) -> dict[str, float]:
    """Every difference by name, in units of what jobs usually differ by."""
    found: dict[str, float] = {}
    for family in sorted(set(one.laws) & set(other.laws)):
        here, there = one.laws[family], other.laws[family]
        found[f"{family}: step"] = log(here.alpha_seconds / there.alpha_seconds) / ALPHA_SCALE
        found[f"{family}: load"] = (here.log_load - there.log_load) / LOAD_SCALE
        grids = set(here.log_sync) & set(there.log_sync)
        if grids:
            gaps = [here.log_sync[grid] - there.log_sync[grid] for grid in grids]
            found[f"{family}: sync"] = sum(gaps) / len(gaps) / SYNC_SCALE
    if one.noise_scale is not None and other.noise_scale is not None:
        ours, theirs = one.noise_scale / one.smallest_batch, other.noise_scale / other.smallest_batch
        found["noise"] = log(ours / theirs) / NOISE_SCALE
    return found


def describe(one: StoredModel, other: StoredModel) -> str:
    """The similarity in words, with what differs most."""
    if one.fingerprint and one.fingerprint == other.fingerprint:
        return f"the same training as {other.job}"
    apart = differences(one, other)
    if not apart:
        return f"nothing to compare with {other.job}"
    name = max(apart, key=lambda key: abs(apart[key]))
    return f"{similarity(one, other):.2f} like {other.job}; most apart in {name} ({apart[name]:+.2f})"
