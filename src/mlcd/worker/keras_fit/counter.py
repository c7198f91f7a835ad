"""Steps and samples of a model, counted in the graph that trains it: there the size of each batch is known exactly."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf  # the program has begun to import it, or this module would not be asked for

from mlcd.worker.guard import guard

TrainStep = Callable[[Any], Any]


class Counter:
    """Counts what the replicas of this process have done; reading it waits for the step that is under way."""

    def __init__(self, strategy: Any) -> None:
        self._strategy = strategy
        with strategy.scope():
            self._done = tf.Variable(
                tf.zeros(2, tf.int64),
                trainable=False,
                synchronization=tf.VariableSynchronization.ON_READ,
                aggregation=tf.VariableAggregation.SUM,
            )

    def counting(self, step: TrainStep) -> TrainStep:
        """The step, which counts its batch."""

        @functools.wraps(step)
        def counted(data: Any) -> Any:
            self._add(data)
            return step(data)

        return counted

    @guard(None)
    def _add(self, data: Any) -> None:
        self._done.assign_add(tf.stack([tf.ones((), tf.int64), samples_of(data)]))

    def read(self) -> tuple[int, int]:
        """Steps and samples so far."""
        replicas = [one.numpy() for one in self._strategy.experimental_local_results(self._done)]
        return int(replicas[0][0]), int(sum(one[1] for one in replicas))


def samples_of(data: Any) -> Any:
    """The samples in a batch, as a tensor."""
    first = next(part for part in tf.nest.flatten(data) if part is not None)
    if isinstance(first, tf.RaggedTensor):
        return tf.cast(first.nrows(), tf.int64)
    if isinstance(first, tf.SparseTensor):
        return first.dense_shape[0]
    return tf.shape(first, tf.int64)[0]
