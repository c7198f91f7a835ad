"""Ax: the platform's own choice of model and acquisition, with an outcome constraint for the limit."""

from __future__ import annotations

import logging
import warnings

from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.utils.common.logger import set_ax_logger_levels

from mlcd.core.machines import Deployment
from mlcd_bench.peers.base import Peer, Point, Question


class Ax(Peer):
    """ax.api.Client with the "fast" generation strategy, its default."""

    def ask(self, question: Question) -> Deployment:
        set_ax_logger_levels(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            client = _client(question)
            for probe in question.past_probes:
                index = client.attach_trial(dict(probe.point))
                data = {"value": probe.value, "excess": probe.excess}
                client.complete_trial(index, data if question.limited else {"value": probe.value})
            suggestions = client.get_next_trials(max_trials=1)
        # Ax may find nothing new in a small space; any untried deployment then serves.
        point: Point = dict(next(iter(suggestions.values()), question.point(question.untried[0])))
        return question.nearest(point)


def _client(question: Question) -> Client:
    client = Client(random_seed=question.seed)
    client.configure_experiment(_parameters(question))
    client.configure_optimization("-value", ["excess <= 0"] if question.limited else None)
    client.configure_generation_strategy(
        method="fast",
        initialization_budget=1,
        initialization_random_seed=question.seed,
        initialize_with_center=False,
    )
    return client


def _parameters(question: Question) -> list[RangeParameterConfig | ChoiceParameterConfig]:
    numbers = [RangeParameterConfig(name, ends, "float", scaling="log") for name, ends in question.ends().items()]
    if not question.by_name:
        return [*numbers]
    return [ChoiceParameterConfig("name", list(question.names), "str", is_ordered=False), *numbers]
