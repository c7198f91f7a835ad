"""Counts the steps and samples of a torch program that knows nothing of mlcd.

A step is a step of the first optimizer (a GAN has two). Its samples are those of the batches fetched since the last step
from the data loader that was used last: a validation loader runs between two steps and so counts for nothing, gradient
accumulation counts all its batches. A program without a data loader has its samples per step learned from what its
outermost module is given in the first steps, or else from MLCD_LOCAL_BATCH_SIZE.

A step inside torch.compile leaves only a mark, which does not break the graph; it is counted with the next batch.

Both hooks are installed by the bundle's sitecustomize when the program imports torch (see mlcd.worker.bundle).
"""

from __future__ import annotations

import functools
import statistics
import time
import weakref
from collections.abc import Callable
from typing import Any

import torch  # the program has begun to import it, or this module would not be asked for

from mlcd.worker.batch_samples import leading_dimension
from mlcd.worker.first_optimizer import FirstOptimizer
from mlcd.worker.guard import guard
from mlcd.worker.pytorch.model_size import ModelSize
from mlcd.worker.session import current

_LEARNING_STEPS = 3


class Observer:
    """What was seen of the program's loaders, modules and optimizers."""

    def __init__(self) -> None:
        self.steps = 0
        self.samples = 0.0
        self.first = FirstOptimizer()
        self._iterator: Callable[[], Any] | None = None  # of the loader used last
        self._fetched = 0
        self._fetched_at: float | None = None  # where steps are compiled
        self._learner: BatchLearner | None = None
        self.compiled_step = False

    def fetched(self, iterator: Any, batch: Any) -> None:
        """A data loader has yielded a batch."""
        if self.compiled_step:
            self.settle()
        if self._fetched_at is not None:
            self._fetched_at = time.time()
        if self._iterator is None or self._iterator() is not iterator:
            self._iterator = weakref.ref(iterator)
            self._fetched = 0
        self._fetched += leading_dimension(batch) or 1
        first = current().first_batches
        if first is not None and first.looks:
            first.fetched(iterator, batch)

    def stepped(self, optimizer: Any) -> None:
        """An optimizer has done a step."""
        if self.first.stepped(optimizer):
            self._add_step()

    def settle(self) -> None:
        """Count the step that torch.compile has left a mark of; it was done with the batch fetched last."""
        if self.compiled_step:
            self.compiled_step = False
            since, self._fetched_at = self._fetched_at, time.time()
            self._add_step(since)

    def _add_step(self, since: float | None = None) -> None:
        self.steps += 1
        if self._iterator is not None:
            self.samples += self._fetched
            self._fetched = 0
        else:
            self.samples = self._without_loader()
        session = current()
        if session.first_batches is not None and session.first_batches.looks:
            session.first_batches.stepped()
        session.counts.set_hooked(self.steps, self.samples, since)
        if self.steps == 1:
            session.start()

    def _without_loader(self) -> float:
        if self._learner is None:
            self._learner = BatchLearner()
        self._learner.stepped()
        return self.steps * (self._learner.samples_per_step or max(1, current().env.local_batch_size))


class BatchLearner:
    """Learns the samples of a step from the input of the outermost module, then gets out of the way."""

    def __init__(self) -> None:
        self.samples_per_step = 0.0
        self._seen: list[int] = []
        self._root: Any = None  # the first module called since the last step
        self._samples = 0
        self._handle: Any = torch.nn.modules.module.register_module_forward_pre_hook(self._called)

    def stepped(self) -> None:
        """A step is over: what was its batch?"""
        if self._handle is None:
            return
        if self._samples:
            self._seen.append(self._samples)
        self._root, self._samples = None, 0
        if len(self._seen) >= _LEARNING_STEPS:
            self.samples_per_step = statistics.median(self._seen)
            self._handle.remove()
            self._handle = None

    def _called(self, module: Any, inputs: Any) -> None:
        if torch.compiler.is_compiling():  # what cannot be traced would end the program
            if self._samples == 0 and inputs and isinstance(inputs[0], torch.Tensor) and inputs[0].dim() > 0:
                self._samples = inputs[0].shape[0]
            return
        if not getattr(module, "training", False) or (self._root is not None and self._root is not module):
            return
        self._root = module
        self._samples += leading_dimension(inputs) or 0


_observer = Observer()
_model_size = ModelSize()


def hook_optimizers(module: Any) -> None:
    """Count the steps of all optimizers of torch.optim.optimizer, and measure their gradient noise where asked to."""
    module.register_optimizer_step_post_hook(_after_step)
    session = current()
    session.ticks.append(lambda: _model_size.check(_observer.first.current))
    session.before_end.append(_observer.settle)
    if session.env.noise:
        from mlcd.worker.pytorch.noise import hook_noise

        hook_noise(module)


def hook_loaders(module: Any) -> None:
    """Count the batches of all data loaders of torch.utils.data.dataloader."""
    iterator = module._BaseDataLoaderIter
    fetch = iterator.__next__

    def counted_next(self: Any) -> Any:
        try:
            batch = fetch(self)
        except StopIteration:
            _after_last(self)
            raise
        _after_fetch(self, batch)
        return batch

    iterator.__next__ = counted_next


def hook_saving(module: Any) -> None:
    """Note the count when the program saves by torch.serialization, which writes past Python."""
    save = module.save

    @functools.wraps(save)
    def marked_save(*args: Any, **kwargs: Any) -> Any:
        _mark()
        return save(*args, **kwargs)

    module.save = marked_save


@guard(None)
def _mark() -> None:
    current().counts.mark_save()


def _after_step(optimizer: Any, args: Any, kwargs: Any) -> None:
    if torch.compiler.is_compiling():
        _observer.compiled_step = True
    else:
        _count_step(optimizer)


@guard(None)
def _count_step(optimizer: Any) -> None:
    session = current()
    if session.mute:
        return
    if session.counts.loop is None and not session.counts.in_flight:
        _observer.stepped(optimizer)
    else:
        _observer.first.stepped(optimizer)


@guard(None)
def _after_last(iterator: Any) -> None:
    if current().counts.loop is None:
        _observer.settle()


@guard(None)
def _after_fetch(iterator: Any, batch: Any) -> None:
    session = current()
    session.reporter.batches += 1
    if session.counts.loop is None:
        _observer.fetched(iterator, batch)
