"""Measured deployments as profiles of the parallel model, and the laws that fit them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from mlcd.core.machines import Deployment, InstanceType
from mlcd.core.trial import Measurement, Trial
from mlcd.forecast.parallel import Placement, StepLaw
from mlcd.forecast.step_fit import Profile, fit_steps


def laws_of(trials: Iterable[Trial]) -> dict[str, StepLaw]:
    """The step law of each family of instance types that was measured."""
    families: dict[str, list[Profile]] = defaultdict(list)
    for profile in profiles_of(trials):
        families[profile.placement.family].append(profile)
    return {
        family: fit_steps(list(dict.fromkeys(one.placement for one in profiles)), profiles).law()
        for family, profiles in families.items()
    }


def profiles_of(trials: Iterable[Trial]) -> list[Profile]:
    """What the trials tell of step times; of a failed one, or one whose batch is not known, nothing."""
    found = []
    for trial in trials:
        seen = trial.measurement
        batch = batch_of(trial.deployment, seen) if seen is not None else None
        if seen is not None and batch is not None and seen.samples_per_second > 0:
            found.append(Profile(placement_of(trial.deployment, batch), batch / seen.samples_per_second))
    return found


def batch_of(deployment: Deployment, seen: Measurement) -> int | None:
    """Samples in a step of all nodes: as mlcd set it, or else as the program was seen to take."""
    if deployment.batch_size is not None:
        return deployment.batch_size
    return max(1, round(seen.samples / seen.steps)) if seen.steps > 0 and seen.samples > 0 else None


def placement_of(deployment: Deployment, batch: int) -> Placement:
    """Where a step of that batch runs and how it is cut."""
    instance = deployment.offer.instance
    devices = max(1, instance.gpus)
    whole = Placement(family_of(instance), instance.name, deployment.nodes, devices, batch)
    if deployment.accumulation == 1:
        return whole
    limit = whole.local_batch / deployment.accumulation
    return Placement(whole.family, whole.instance, whole.nodes, devices, batch, limit)


def family_of(instance: InstanceType) -> str:
    """Instance types with the same GPU are a family; one without is a family of its own."""
    if instance.gpus == 0:
        return instance.name
    return instance.gpu_model or instance.name.removesuffix(f"x{instance.gpus}")
