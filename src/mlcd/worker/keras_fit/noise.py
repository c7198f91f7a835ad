"""At which steps of `fit` the gradient noise is measured; MLCD_NOISE=1 switches it on.

A measured step runs a train function of its own, which is traced when it is first needed; all others run as they would
without. Of several ranks the first measures, on its part of the batch: the noise scale is the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from mlcd.worker import ranks
from mlcd.worker.guard import guard, log_error, log_once
from mlcd.worker.keras_fit.counter import TrainStep
from mlcd.worker.keras_fit.gradient_probe import GradientProbe
from mlcd.worker.noise.meter import NoiseMeter
from mlcd.worker.noise.schedule import Schedule
from mlcd.worker.session import current

_SPLIT_INTERVAL = 64  # a second backward pass is about two thirds of a step: 1 % of 64 steps


class NoiseWatch:
    """Decides which steps are measured, and feeds the meter."""

    def __init__(
        self,
        model: Any,
        step: TrainStep,
        make: Callable[[Any, TrainStep], Callable[[Any], Any]],
    ) -> None:
        self._probe = GradientProbe(model)
        self._measuring = make(model, self._probe.measuring(step))
        self._meter = NoiseMeter()
        self._schedule = Schedule()
        self._measures = ranks.rank(current().env) == 0 and _in_a_graph(model)
        self._steps = 0
        self._stepped_at = 0.0
        if model.distribute_strategy.num_replicas_in_sync == 1:
            self._schedule.at_least(_SPLIT_INTERVAL)

    def due(self) -> bool:
        """Whether to measure the next step."""
        return self._measures and self._probe.possible and self._schedule.due(self._steps + 1)

    def measure(self, iterator: Any, plain: Callable[[Any], Any]) -> Any:
        """Do the step, and measure it; where measuring itself fails, do it as the program would, now and from now on.

        What the program raises by itself it raises again. A step that had no room in memory has taken its batch.
        """
        try:
            with self._probe.watching():
                return self._measuring(iterator)
        except (StopIteration, tf.errors.OpError) as error:
            if not isinstance(error, tf.errors.ResourceExhaustedError):
                raise
            log_once("gradient noise: there is no memory for measuring it: not measured")
        except Exception as error:  # the border to the user's training: no graph was built, so no step was done
            log_error("gradient noise", error)
        self._probe.possible = False
        return plain(iterator)

    @guard(None)
    def stepped(self, measured: bool) -> None:
        """A step was done."""
        self._steps += 1
        if measured and self._probe.possible:
            norms = self._probe.read()
            self._meter.observe([norms.local], norms.mean, norms.local_batch, norms.global_batch)
        now = time.perf_counter()
        if self._stepped_at:
            self._schedule.took(now - self._stepped_at, measured)
        self._stepped_at = now


def _in_a_graph(model: Any) -> bool:
    """Whether its steps become a graph; one that runs eagerly, or has no optimizer of Keras, cannot be watched."""
    if not model.run_eagerly and model.optimizer is not None:
        return True
    log_once("gradient noise: this model runs eagerly or is compiled without an optimizer: not measured")
    return False
