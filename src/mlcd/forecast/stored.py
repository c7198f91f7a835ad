"""What was learnt of a job, kept with it for later jobs: its step laws, its noise, its samples to the target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from mlcd.forecast.parallel import StepLaw, SyncTrend
from mlcd.forecast.statistical import Work


@dataclass(frozen=True)
class StoredModel:
    """The parallel and the statistical model of one job."""

    job: str
    fingerprint: str  # of program, arguments and target: equal means the same training
    laws: Mapping[str, StepLaw] = field(default_factory=dict)  # by family
    noise_scale: float | None = None  # φ in samples, over the whole training; None: not measured
    first_noise: float | None = None  # the same at its beginning
    smallest_batch: int = 1
    work: Work | None = None  # so many samples at that batch size reached the target


def to_document(model: StoredModel) -> dict[str, Any]:
    """The model as what JSON can hold."""
    laws = {family: _law_document(law) for family, law in model.laws.items()}
    return {**asdict(model), "laws": laws}


def from_document(document: Mapping[str, Any]) -> StoredModel:
    """The model that to_document wrote."""
    laws = {family: _law(law) for family, law in document["laws"].items()}
    work = None if document["work"] is None else Work(**document["work"])
    return StoredModel(**{**document, "laws": laws, "work": work})


def _law_document(law: StepLaw) -> dict[str, Any]:
    return {**asdict(law), "log_sync": [[*grid, ratio] for grid, ratio in law.log_sync.items()]}


def _law(document: Mapping[str, Any]) -> StepLaw:
    sync = {(int(nodes), int(devices)): float(ratio) for nodes, devices, ratio in document["log_sync"]}
    return StepLaw(**{**document, "trend": SyncTrend(**document["trend"]), "log_sync": sync})
