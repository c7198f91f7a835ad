"""A question put to one of Optuna's samplers."""

from __future__ import annotations

import warnings

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution

from mlcd.core.machines import Deployment
from mlcd_bench.peers.base import PastProbe, Point, Question

optuna.logging.set_verbosity(optuna.logging.ERROR)


def suggest_with(sampler: optuna.samplers.BaseSampler, question: Question) -> Deployment:
    """Tell a fresh study all trials, ask it once."""
    space = _space(question)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", category=optuna.exceptions.ExperimentalWarning)
        study = optuna.create_study(sampler=sampler)
        for probe in question.past_probes:
            study.add_trial(_trial(probe, space, question.limited))
        asked = study.ask(space)
    point: Point = dict(asked.params)
    return question.nearest(point)


def _space(question: Question) -> dict[str, BaseDistribution]:
    machine: dict[str, BaseDistribution] = {"name": CategoricalDistribution(question.names)}
    numbers = {name: FloatDistribution(*ends, log=True) for name, ends in question.ends().items()}
    return {**(machine if question.by_name else {}), **numbers}


def _trial(probe: PastProbe, space: dict[str, BaseDistribution], limited: bool) -> optuna.trial.FrozenTrial:
    return optuna.trial.create_trial(
        value=probe.value,
        params=dict(probe.point),
        distributions=space,
        constraints={"limit": probe.excess} if limited else None,
    )
