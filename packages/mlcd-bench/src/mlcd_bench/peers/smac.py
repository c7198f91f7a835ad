"""SMAC3: random forests.

SMAC has no constraints in its ask-and-tell interface, so passing the limit is made dear instead: ten times the
logarithm of what it is passed by is added to the objective.
"""

from __future__ import annotations

import logging
import tempfile
import warnings
from pathlib import Path

import joblib
from ConfigSpace import (
    CategoricalHyperparameter,
    Configuration,
    ConfigurationSpace,
    UniformFloatHyperparameter,
)
from smac import HyperparameterOptimizationFacade, Scenario
from smac.runhistory.dataclasses import TrialInfo, TrialValue

from mlcd.core.machines import Deployment
from mlcd_bench.peers.base import PastProbe, Peer, Point, Question

_PENALTY = 10.0


class Smac(Peer):
    """smac.HyperparameterOptimizationFacade."""

    machine = "name"

    def ask(self, question: Question) -> Deployment:
        logging.getLogger("smac").setLevel(logging.ERROR)
        space = _space(question)
        # Its forests would start a thread for each of ten trees; every process of a benchmark has one core.
        sequential = joblib.parallel_config(backend="sequential")
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(), sequential:
            warnings.simplefilter("ignore")
            smac = _facade(space, question, Path(folder))
            for probe in question.past_probes:
                smac.tell(_info(probe, space), TrialValue(cost=_cost(probe)), save=False)
            point: Point = dict(smac.ask().config)
        return question.nearest(point)


def _facade(space: ConfigurationSpace, question: Question, folder: Path) -> HyperparameterOptimizationFacade:
    facade = HyperparameterOptimizationFacade
    scenario = Scenario(space, output_directory=folder, deterministic=True, n_trials=1000, seed=question.seed % 2**31)
    return facade(
        scenario,
        _never_called,
        initial_design=facade.get_initial_design(scenario, n_configs=0),
        random_design=facade.get_random_design(scenario, probability=0.0),
        intensifier=facade.get_intensifier(scenario, max_config_calls=1),
        logging_level=False,
        overwrite=True,
    )


def _never_called(config: Configuration, seed: int = 0) -> float:
    raise NotImplementedError("the protocol probes, not SMAC")


def _space(question: Question) -> ConfigurationSpace:
    space = ConfigurationSpace(seed=question.seed % 2**31)
    if question.by_name:
        space.add(CategoricalHyperparameter("name", question.names))
    for name, (low, high) in question.ends().items():
        space.add(UniformFloatHyperparameter(name, low, high, log=True))
    return space


def _info(probe: PastProbe, space: ConfigurationSpace) -> TrialInfo:
    return TrialInfo(Configuration(space, values=dict(probe.point)), seed=0)


def _cost(probe: PastProbe) -> float:
    return probe.value + _PENALTY * max(0.0, probe.excess)
