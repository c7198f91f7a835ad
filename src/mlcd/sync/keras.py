"""Keras models that train on several workers that cannot reach each other, by the `fit` that they have.

    model.compile(...)
    with mlcd.sync.join() as group:
        share(model, group)
        model.fit(images[group.rank :: group.world_size], ..., batch_size=mlcd.local_batch_size(64))

Gradients are averaged over the workers before the optimizer clips or applies them, so every worker has to have as many batches, of
the same size. The exchange carries the wish to stop: all workers end after the same step. For Keras on TensorFlow.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import tensorflow as tf

from mlcd.errors import UserError
from mlcd.sync.group import Group
from mlcd.worker.api import stopping
from mlcd.worker.keras_fit.totals import end, read_count


def share(model: Any, group: Group) -> None:
    """Have the workers of the group train this model together: with the weights of the first one, from now on alike."""
    if model.optimizer is None or not model.built:
        raise UserError(
            "This model cannot be shared yet.",
            "Compile it first, and let it know its input: by keras.Input or build().",
        )
    if model.jit_compile:
        raise UserError(
            "A model that is compiled by XLA cannot exchange its gradients.", "Say compile(jit_compile=False)."
        )
    if group.world_size == 1:
        return
    _broadcast(model, group)
    vars(model.optimizer)["apply"] = _averaging(model, model.optimizer.apply, group)  # past Keras, which keeps account
    model.train_function = None  # one that was traced before would not exchange


def _broadcast(model: Any, group: Group) -> None:
    weights = [*model.weights, *model.optimizer.variables]
    values = [np.array(weight) for weight in weights]
    group.broadcast(values)
    for weight, value in zip(weights, values, strict=True):
        weight.assign(value)


def _averaging(model: Any, apply: Any, group: Group) -> Any:
    """The optimizer's `apply`, with the mean of all workers' gradients."""

    def exchange(*gradients: Any) -> list[Any]:
        arrays = [np.array(gradient) for gradient in gradients]  # copies: TensorFlow's own must not be written to
        read_count(model)  # this step is counted by now: where it is the last of the work, all end with it
        wish = np.array([float(stopping())])
        group.all_reduce([*arrays, wish], op="mean")
        if wish[0] > 0:
            end(model)
        return arrays

    @functools.wraps(apply)
    def averaging(grads: Any, trainable_variables: Any = None) -> Any:
        grads = list(grads)
        own = [tf.convert_to_tensor(one) for one in grads if one is not None]
        means = tf.numpy_function(exchange, own, [one.dtype for one in own])
        for mean, one in zip(means, own, strict=True):
            mean.set_shape(one.shape)
        left = iter(means)
        return apply([None if one is None else next(left) for one in grads], trainable_variables)

    return averaging
