"""The hooks of one sampled step; between sampled steps the program runs without any.

armed      a hook on all modules waits for the first that is called to train: the outermost
called     that hook goes, before any inner module is called, and one on the outermost module's result comes
returned   the tensors of the result get a hook each
flowing    the backward pass comes by: it is counted, and a callback is queued for its end
over       the norms of all gradients are taken, before the program can clip or unscale them
closed     the optimizer has stepped; everything is taken off again
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping
from typing import Any

import torch

from mlcd.worker import ranks
from mlcd.worker.batch_samples import leading_dimension
from mlcd.worker.guard import guard, log_once
from mlcd.worker.pytorch.probes import HalfProbe, RanksProbe, Reading
from mlcd.worker.session import current

_DEEPEST = 4


class StepSample:
    """Watches the passes of one step."""

    def __init__(self, may_split: bool) -> None:
        self.probe: HalfProbe | RanksProbe | None = None
        self.samples = 0  # that the outermost module was given
        self._may_split = may_split
        self._forwards = 0
        self._backwards = 0
        self._in_backward = False
        self._busy = False  # with a backward pass of our own
        self._everywhere: Any = None
        self._outermost: Any = None
        self._arm()

    def close(self) -> Reading | None:
        """Take all hooks off; what the step has shown, if anything."""
        for handle in (self._everywhere, self._outermost):
            if handle is not None:
                handle.remove()
        if self.probe is None:
            return None
        self.probe.close()
        return self.probe.reading(self._forwards, self._backwards) if self._backwards else None

    def _arm(self) -> None:
        self._everywhere = torch.nn.modules.module.register_module_forward_pre_hook(self._called)

    def _called(self, module: Any, inputs: Any) -> None:
        if not torch.compiler.is_compiling():  # what is done here cannot be traced
            self._begun(module)

    @guard(None)
    def _begun(self, module: Any) -> None:
        if not (getattr(module, "training", False) and torch.is_grad_enabled()) or _only_wraps(module):
            return
        self._everywhere.remove()
        self._everywhere = None
        self._outermost = module.register_forward_hook(self._returned, with_kwargs=True)

    @guard(None)
    def _returned(self, module: Any, inputs: Any, named_inputs: Any, output: Any) -> None:
        tensors = [one for one in _tensors(output) if one.requires_grad and one.grad_fn is not None]
        if not torch.is_grad_enabled() or not module.training:
            return
        if not tensors and self.probe is None:  # a frozen part that is called by itself: wait for the next
            self._outermost.remove()
            self._arm()
            return
        if self.probe is None:
            self.probe = _probe_for(module, self._may_split)
        self._forwards += 1
        samples = leading_dimension((inputs, named_inputs)) or 0
        self.samples += samples
        for tensor in tensors if self.probe is not None else []:
            batched = tensor.dim() > 0 and tensor.shape[0] == samples
            tensor.register_hook(functools.partial(self._flowing, tensor, samples if batched else 0))

    @guard(None)
    def _flowing(self, output: Any, samples: int, gradient: Any) -> None:
        if self._busy or self.probe is None:
            return
        if not self._in_backward:
            self._in_backward = True
            self._backwards += 1
            self._queue(self._nearly_over)
        if samples:
            self._busy = True
            try:
                self.probe.flowing(output, gradient, samples, self._backwards)
            finally:
                self._busy = False

    @guard(None)
    def _nearly_over(self) -> None:
        """Other callbacks of this pass, such as DDP's end of averaging, are in the queue by now: go behind them."""
        self._queue(self._over)

    @guard(None)
    def _over(self) -> None:
        self._in_backward = False
        if self.probe is not None:
            self.probe.after_backward(self._backwards)

    @staticmethod
    def _queue(callback: Any) -> None:
        torch.autograd.Variable._execution_engine.queue_callback(callback)


def _probe_for(root: Any, may_split: bool) -> HalfProbe | RanksProbe | None:
    """The probe that suits the way in which this program averages gradients, or None if it is not known."""
    world_size = ranks.world_size(current().env)
    if world_size == 1:
        return HalfProbe(root, may_split)
    averaging = _averaging_modules(root)
    if len(averaging) == 1 and averaging[0].process_group.size() == world_size:
        return RanksProbe(averaging[0], world_size)
    log_once("gradient noise: several ranks, but no DistributedDataParallel over all of them: not measured")
    return None


def _only_wraps(module: Any) -> bool:
    """Whether this is a DDP of one rank, which averages nothing: the module in it is as good, and simpler."""
    return _averages(module) and module.process_group.size() == 1


def _averaging_modules(root: Any) -> list[Any]:
    return [module for module in root.modules() if _averages(module)]


def _averages(module: Any) -> bool:
    parallel = sys.modules.get("torch.nn.parallel.distributed")
    kind = getattr(parallel, "DistributedDataParallel", None)
    return kind is not None and isinstance(module, kind)


def _tensors(value: Any, depth: int = 0) -> list[Any]:
    """The tensors in nested tuples, lists, dicts and dataclasses."""
    if isinstance(value, torch.Tensor):
        return [value]
    if depth >= _DEEPEST or isinstance(value, str):
        return []
    if isinstance(value, Mapping):
        value = list(value.values())
    elif hasattr(value, "__dataclass_fields__"):
        value = list(vars(value).values())
    if isinstance(value, (tuple, list)):
        return [tensor for part in value[:64] for tensor in _tensors(part, depth + 1)]
    return []
