"""How the norms of a sampled step are found: two probes, for one process and for ranks that average by DDP.

HalfProbe    one process. While the gradient of the model's output passes by, a second backward pass is made with it, in
             which every other sample's is zero: the gradient of half of the batch, through the graph that is there
             anyway, without a second forward pass. If it turns out that the program accumulates gradients, its
             micro-batches are compared with their sum instead, and no second backward pass is made from then on.
RanksProbe   each parameter's gradient is looked at when it is ready and DDP has not yet averaged it, and all of them
             once more when DDP is done.

Neither touches a gradient of the program.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from mlcd.worker.guard import guard, log_once
from mlcd.worker.pytorch.norms import norm, squared_norm, sum_of_squares


@dataclass(frozen=True)
class Reading:
    """The norms of a step, still on the device."""

    local_sq_norm: Any
    global_sq_norm: Any
    share: float  # of this process's samples of the step that the local gradient is of
    groups: float  # K


class HalfProbe:
    """Compares the halves of the batch, or the micro-batches, with all of the step."""

    def __init__(self, root: Any, may_split: bool) -> None:
        self.parameters = [one for one in root.parameters() if one.requires_grad]
        self.split_failed = False
        self.was_split = False
        self._may_split = may_split and not _has_hooks(root, self.parameters)
        self._hooks = [] if may_split else [one.register_hook(self._ready) for one in self.parameters]
        self._half: list[Any] = []  # the half's part of each parameter's gradient
        self._share = 0.5  # of the batch
        self._halves: Any = None
        self._outputs = 0  # that a gradient has come through
        self._norms: list[Any] = []  # of the gradients that this backward pass adds
        self._parts: list[Any] = []  # squared norm of what each backward pass added
        self._totals: list[Any] = []  # and of their sum after it

    @guard(None)
    def _ready(self, gradient: Any) -> None:
        self._norms.append(norm(gradient))

    def flowing(self, output: Any, gradient: Any, samples: int, backwards: int) -> None:
        """The gradient of the model's output passes by."""
        if backwards > 1 or not self._may_split:
            return
        self._outputs += 1
        if self._outputs == 1 and samples >= 2 and not output.retains_grad and _has_room(self.parameters):
            self._split(output, gradient, samples)

    def _split(self, output: Any, gradient: Any, samples: int) -> None:
        masked = gradient.clone()
        masked[1::2] = 0
        self._share = ((samples + 1) // 2) / samples
        try:
            found = torch.autograd.grad(output, self.parameters, masked, retain_graph=True, allow_unused=True)
        except RuntimeError as error:  # a graph that can be gone through once only, or no memory left
            log_once(f"gradient noise: this model's batches cannot be split: {error}")
            self.split_failed = True
            return
        self._half = list(found)

    def after_backward(self, backwards: int) -> None:
        """A backward pass is over."""
        half, self._half = self._half, []
        if half:
            self._halves = _mean_of_halves(half, [one.grad for one in self.parameters], self._share)
        total = squared_norm(one.grad for one in self.parameters)
        self._parts.append(sum_of_squares(self._norms) if self._norms else total)
        self._totals.append(total)
        self._norms = []

    def reading(self, forwards: int, backwards: int) -> Reading | None:
        """What the step has shown, if its passes can be made sense of."""
        if any(total is None for total in self._totals) or forwards != backwards:
            return None
        if backwards > 1:
            parts = self._parts if self._hooks else self._parts[:1]  # without hooks the others are not known
            local = torch.stack(parts).mean()
            return Reading(local, self._totals[-1] / backwards**2, 1 / backwards, backwards)
        if self._halves is None or self._outputs != 1:
            return None
        self.was_split = True
        return Reading(self._halves, self._totals[0], share=0.5, groups=2)

    def close(self) -> None:
        """Take the hooks off the parameters."""
        for hook in self._hooks:
            hook.remove()


class RanksProbe:
    """Compares this rank's gradient with the mean over all ranks."""

    def __init__(self, ddp: Any, ranks: int) -> None:
        self.split_failed = False
        self.was_split = False
        self._ddp = ddp
        self._ranks = ranks
        self._parameters = [one for one in ddp.parameters() if one.requires_grad]
        self._norms: list[Any] = []
        self._local: Any = None
        self._mean: Any = None
        self._synced_at = 0
        self._hooks = [one.register_post_accumulate_grad_hook(self._ready) for one in self._parameters]

    @guard(None)
    def _ready(self, parameter: Any) -> None:
        """This runs before DDP's own hook, which may divide the gradient in place."""
        if self._ddp.require_backward_grad_sync and self._mean is None:
            self._norms.append(norm(parameter.grad))

    def flowing(self, output: Any, gradient: Any, samples: int, backwards: int) -> None:
        """The gradient of the model's output passes by."""

    def after_backward(self, backwards: int) -> None:
        """A backward pass is over, the averaging too: that is done by a callback queued before this one's."""
        if not self._norms or self._mean is not None:
            return
        self._local = sum_of_squares(self._norms)
        self._mean = squared_norm(one.grad for one in self._parameters)
        self._synced_at = backwards

    def reading(self, forwards: int, backwards: int) -> Reading | None:
        """What the step has shown: of all its passes, or of those before the first averaging."""
        if self._mean is None or self._local is None:
            return None
        return Reading(self._local, self._mean, self._synced_at / backwards, self._ranks)

    def close(self) -> None:
        """Take the hooks off the parameters."""
        for hook in self._hooks:
            hook.remove()


def _mean_of_halves(half: list[Any], whole: list[Any], share: float) -> Any:
    """The mean of both halves' squared norms, each by its share, which holds for halves that differ by a sample too.

    The other half's gradient is what is missing from the whole: it needs no backward pass of its own.
    """
    known = [i for i in range(len(half)) if half[i] is not None and whole[i] is not None]
    missing = [whole[i] for i in range(len(half)) if half[i] is None and whole[i] is not None]
    if not known:
        return None
    other = [whole[i].detach() - half[i] for i in known]
    return squared_norm(half[i] for i in known) / share + squared_norm([*other, *missing]) / (1 - share)


def _has_hooks(root: Any, parameters: list[Any]) -> bool:
    """Whether the program watches its backward pass: then a second one would be one too many."""
    everywhere = torch.nn.modules.module
    return bool(
        everywhere._global_backward_hooks
        or everywhere._global_backward_pre_hooks
        or any(one._backward_hooks for one in parameters)
        or any(module._backward_hooks or module._backward_pre_hooks for module in root.modules())
    )


def _has_room(parameters: list[Any]) -> bool:
    """Whether the device can hold two more sets of gradients with ease."""
    if not parameters or parameters[0].device.type != "cuda":
        return True
    device = parameters[0].device
    free, _ = torch.cuda.mem_get_info(device)
    cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return bool(free + cached > 3 * sum(one.numel() * one.element_size() for one in parameters))
