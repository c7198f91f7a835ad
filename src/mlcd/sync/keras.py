"""Keras models that train on several workers that cannot reach each other, by the `fit` that they have.

    model.compile(...)
    with mlcd.sync.join() as group:
        share(model, group)
        model.fit(images[group.rank :: group.world_size], ..., batch_size=mlcd.local_batch_size(64))

Gradients are averaged over the workers before the optimizer clips or applies them, so every worker has to have as many batches, of
the same size. The exchange carries the wish to stop: all workers end after the same step. For Keras on TensorFlow.

Where workers are lost, the others go on from the weights of the last step: they are kept after each, and `fit` begins with the newest
that one of them has, in the epoch that it begins with.
"""

from __future__ import annotations

import functools
from typing import Any
from weakref import WeakSet

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
    if group.keeps:
        vars(model)["make_train_function"] = _keeping(model, model.make_train_function, group)
    model.train_function = None  # one that was traced before would not exchange


def _broadcast(model: Any, group: Group) -> None:
    values = _values(model)
    group.broadcast(values)
    _assign(model, values)


def _weights(model: Any) -> list[Any]:
    return [*model.weights, *model.optimizer.variables]


def _values(model: Any) -> list[Any]:
    """Copies: TensorFlow's own must not be written to."""
    return [np.array(weight) for weight in _weights(model)]


def _assign(model: Any, values: list[Any]) -> None:
    for weight, value in zip(_weights(model), values, strict=True):
        weight.assign(value)


_begun: WeakSet[Group] = WeakSet()  # those whose workers have begun: what they train next is not what they had kept


class KeptFunction:
    """What `fit` calls for every step, which begins with what was kept and keeps what it has made of it."""

    def __init__(self, model: Any, train: Any, group: Group) -> None:
        self._model = model
        self._train = train
        self._group = group

    def __call__(self, iterator: Any) -> Any:
        if self._group not in _begun:  # not before: `fit` has loaded what its own callbacks have saved by now
            _begun.add(self._group)
            self._restore()
            if stopping():  # all was done, by all workers
                end(self._model)
                return {}
        logs = self._train(iterator)
        self._group.keep(_values(self._model), int(self._model.optimizer.iterations))
        return logs

    def __getattr__(self, name: str) -> Any:
        return getattr(self._train, name)

    def _restore(self) -> None:
        values = _values(self._model)
        self._group.restore(values, int(self._model.optimizer.iterations))
        _assign(self._model, values)


def _keeping(model: Any, make: Any, group: Group) -> Any:
    """Keras's `make_train_function`, whose function keeps its state."""

    @functools.wraps(make)
    def made(force: bool = False) -> None:
        make(force)
        if not isinstance(model.train_function, KeptFunction):
            model.train_function = KeptFunction(model, model.train_function, group)

    return made


def _averaging(model: Any, apply: Any, group: Group) -> Any:
    """The optimizer's `apply`, with the mean of all workers' gradients."""

    def exchange(*gradients: Any) -> list[Any]:
        arrays = [np.array(gradient) for gradient in gradients]  # copies, as of the weights
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
