"""Acts on what Keras tells its callbacks, without being one: the methods of the list that calls all callbacks are wrapped."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from mlcd.worker.guard import guard
from mlcd.worker.keras_fit.totals import read_count, report, totals
from mlcd.worker.pytorch.model_size import PARAMETERS
from mlcd.worker.session import current


def hook_callbacks(module: Any) -> None:
    """Act when CallbackList of keras.src.callbacks.callback_list calls its callbacks."""
    _before(module.CallbackList, "on_train_begin", _begin)
    _before(module.CallbackList, "on_test_begin", _read)
    _before(module.CallbackList, "on_test_batch_end", _live)
    _before(module.CallbackList, "on_epoch_end", _end_epoch)
    _before(module.CallbackList, "on_train_end", _end)


def _before(kind: Any, name: str, act: Callable[..., None]) -> None:
    method = getattr(kind, name)

    @functools.wraps(method)
    def acting(self: Any, *args: Any, **kwargs: Any) -> Any:
        if current().active:
            act(self, *args, **kwargs)
        return method(self, *args, **kwargs)

    setattr(kind, name, acting)


@guard(None)
def _begin(callbacks: Any, logs: Any = None) -> None:
    session = current()
    totals.begin()
    session.start()
    sizes = [math.prod(weight.shape) for weight in callbacks.model.trainable_variables]
    session.report(None, None, {PARAMETERS: float(sum(sizes))})
    session.stop.handle_sigterm()


@guard(None)
def _read(callbacks: Any, logs: Any = None) -> None:
    """Before a validation, so that its time is not taken for that of steps."""
    read_count(callbacks.model)


@guard(None)
def _live(callbacks: Any, batch: Any = None, logs: Any = None) -> None:
    current().reporter.batches += 1


@guard(None)
def _end_epoch(callbacks: Any, epoch: int, logs: Any = None) -> None:
    """The metrics of the whole epoch, those of the validation among them; an epoch that was cut short is to be done again."""
    _read(callbacks)
    report(current(), logs)
    for backup in _backups(callbacks):
        vars(backup)["on_epoch_end"] = functools.partial(_save_before, backup.on_epoch_end)


def _save_before(save: Callable[..., None], epoch: int, logs: Any = None) -> None:
    """Save what was learnt until now as of the end of the epoch before."""
    save(epoch - 1, logs)


@guard(None)
def _end(callbacks: Any, logs: Any = None) -> None:
    """A training that was stopped goes on later: Keras is to keep what it would go on from."""
    _read(callbacks)
    for backup in _backups(callbacks):
        backup.delete_checkpoint = False
        vars(backup).pop("on_epoch_end", None)


def _backups(callbacks: Any) -> list[Any]:
    """Keras's BackupAndRestore, where the training was ended before its work was done."""
    if not totals.cut or current().stop.work_done():
        return []
    return [callback for callback in callbacks.callbacks if hasattr(callback, "delete_checkpoint")]
