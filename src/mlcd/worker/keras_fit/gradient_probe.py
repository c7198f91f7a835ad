"""The norms of a measured step, worked out in the graph of that step.

one replica   the batch is cut in two: while the gradient of the loss is there anyway, a second backward pass through the same graph is
              made with every other sample's part of it set to zero. There is no second forward pass, so dropout and batch
              normalisation are those of the step.
several       each replica's gradient is compared with the mean over all, which the replicas exchange once more

Neither changes a gradient of the program. Gradients are seen where the optimizer gets them, before it clips or unscales them.
"""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from mlcd.worker.guard import guard, log_once
from mlcd.worker.keras_fit.counter import TrainStep, samples_of


@dataclass(frozen=True)
class Norms:
    """‖g_k‖² and ‖ḡ‖², and the samples that each is of."""

    local: float
    mean: float
    local_batch: float
    global_batch: float


class GradientProbe:
    """Makes a step measure; what it found is read afterwards."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._strategy = model.distribute_strategy
        self.possible = True  # until tracing the step has shown that it is not
        self._traced = threading.local()  # of each replica, which TensorFlow traces in a thread of its own
        with self._strategy.scope():
            self._found = tf.Variable(
                tf.fill([4], math.nan),
                trainable=False,
                synchronization=tf.VariableSynchronization.ON_READ,
                aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
            )

    def measuring(self, step: TrainStep) -> TrainStep:
        """The step, which leaves its norms."""

        @functools.wraps(step)
        def measured(data: Any) -> Any:
            self._traced.seen = seen = _Seen()
            logs = step(data)
            self._leave(seen, data)
            return logs

        return measured

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Take note of loss and gradients, should the step be traced meanwhile."""
        compute_loss, apply = self._model.compute_loss, self._model.optimizer.apply

        def seen_loss(*args: Any, **kwargs: Any) -> Any:
            loss = compute_loss(*args, **kwargs)
            self._traced.seen.note_loss(loss, self._model.losses, kwargs.get("y_pred", args[2] if args[2:] else None))
            return loss

        def seen_apply(grads: Any, trainable_variables: Any = None) -> Any:
            gradients = list(grads)
            self._traced.seen.note_gradients(self._model, gradients, trainable_variables)
            return apply(gradients, trainable_variables)

        with _hidden(self._model, "compute_loss", seen_loss), _hidden(self._model.optimizer, "apply", seen_apply):
            yield

    def read(self) -> Norms:
        """Of the step measured last."""
        return Norms(*(float(number) for number in self._strategy.experimental_local_results(self._found)[0].numpy()))

    @guard(None)
    def _leave(self, seen: _Seen, data: Any) -> None:
        self.possible = False
        found = self._norms(seen, tf.cast(samples_of(data), tf.float32))
        if found is not None:
            self._found.assign(tf.stack([tf.cast(number, tf.float32) for number in found]))
            self.possible = True

    def _norms(self, seen: _Seen, samples: Any) -> Sequence[Any] | None:
        if not seen.gradients:
            log_once("gradient noise: this train_step does not go through the optimizer of the model: not measured")
            return None
        if self._strategy.num_replicas_in_sync > 1:
            return _of_replicas(seen, samples)
        return _of_halves(seen, samples)


@dataclass
class _Seen:
    """What passes by while a step is traced."""

    gradients: list[Any] = field(default_factory=list)
    variables: list[Any] = field(default_factory=list)
    scale: Any = 1.0  # of the loss, in half precision
    loss: Any = None
    outputs: list[Any] = field(default_factory=list)
    penalties: list[Any] = field(default_factory=list)  # regularisation, which is the same for every sample

    @guard(None)
    def note_loss(self, loss: Any, penalties: Sequence[Any], output: Any) -> None:
        """What the model gave, and how wrong that is."""
        self.loss, self.penalties = loss, list(penalties)
        self.outputs = [one for one in tf.nest.flatten(output) if one is not None]

    @guard(None)
    def note_gradients(self, model: Any, gradients: list[Any], variables: Any) -> None:
        """What the optimizer is given."""
        trained = model.trainable_variables if variables is None else variables
        self.gradients, self.variables = gradients, [getattr(one, "value", one) for one in trained]
        self.scale = model.optimizer.scale_loss(tf.ones(()))  # read now: applying the gradients may change it


@contextmanager
def _hidden(owner: Any, name: str, instead: Any) -> Iterator[None]:
    """A method replaced for this object, past Keras, which would keep account of the attribute."""
    before = vars(owner).get(name)
    vars(owner)[name] = instead
    try:
        yield
    finally:
        if before is None:
            del vars(owner)[name]
        else:
            vars(owner)[name] = before


def _of_replicas(seen: _Seen, samples: Any) -> Sequence[Any]:
    """Keras divides each replica's loss by their number, so that the sum of the gradients is the mean."""
    context = tf.distribute.get_replica_context()
    replicas = context.num_replicas_in_sync
    own = [_dense(gradient) for gradient in seen.gradients if gradient is not None]
    mean = context.all_reduce(tf.distribute.ReduceOp.SUM, own)
    total = context.all_reduce(tf.distribute.ReduceOp.SUM, samples)
    local = context.all_reduce(tf.distribute.ReduceOp.MEAN, _squared(own) * replicas**2)
    return local, _squared(mean), total / replicas, total


def _of_halves(seen: _Seen, samples: Any) -> Sequence[Any] | None:
    """The mean of both halves' squared norms, each by its share, which holds for halves that differ by a sample too."""
    if seen.loss is None or not seen.outputs or tf.executing_eagerly():
        log_once("gradient noise: the loss of this model is not worked out by compute_loss in a graph: not measured")
        return None
    share = tf.math.ceil(samples / 2) / samples
    half = _half_gradient(seen, share)
    local = tf.zeros(())
    other = tf.zeros(())
    for part, whole in zip(half, seen.gradients):  # noqa: B905  # Python 3.9
        if whole is not None:
            kept = tf.zeros(()) if part is None else part
            local += _squared([kept])
            other += _squared([_dense(whole) - kept])
    factor = tf.cast(seen.scale, tf.float32) ** 2
    mean = _squared([_dense(one) for one in seen.gradients if one is not None])
    return (local / share + other / (1 - share)) / factor, mean / factor, samples / 2, samples


def _half_gradient(seen: _Seen, share: Any) -> list[Any]:
    """The gradient of every other sample's part of the loss, and their share of what does not depend on samples."""
    scaled = seen.loss * tf.cast(seen.scale, seen.loss.dtype)
    flow = tf.gradients(scaled, seen.outputs)
    masked = [None if one is None else _every_other(_dense(one)) for one in flow]
    pairs = zip(seen.outputs, masked)  # noqa: B905  # Python 3.9
    known = [(output, one) for output, one in pairs if one is not None]
    half = tf.gradients([output for output, _ in known], seen.variables, grad_ys=[one for _, one in known])
    if not seen.penalties:
        return [None if one is None else _dense(one) for one in half]
    weight = tf.cast(share, scaled.dtype) * tf.cast(seen.scale, scaled.dtype)
    common = tf.gradients(tf.add_n(seen.penalties) * weight, seen.variables)
    return [_sum(one, more) for one, more in zip(half, common)]  # noqa: B905  # Python 3.9


def _every_other(flow: Any) -> Any:
    rows = tf.range(tf.shape(flow)[0])
    mask = tf.cast(rows % 2 == 0, flow.dtype)
    return flow * tf.reshape(mask, tf.concat([[tf.size(mask)], tf.ones([tf.rank(flow) - 1], tf.int32)], 0))


def _sum(one: Any, more: Any) -> Any:
    parts = [_dense(part) for part in (one, more) if part is not None]
    return tf.add_n(parts) if parts else None


def _squared(tensors: Sequence[Any]) -> Any:
    """The sum of squares of all of them."""
    return tf.add_n([tf.reduce_sum(tf.square(tf.cast(tensor, tf.float32))) for tensor in tensors])


def _dense(gradient: Any) -> Any:
    return tf.convert_to_tensor(gradient)  # an embedding's is sparse, with rows that may come more than once
