"""The batch size and learning rate that mlcd chose, as the training program asks for them."""

from __future__ import annotations

import mlcd.worker.ranks as ranks
from mlcd.worker.guard import guard
from mlcd.worker.noise import NOISE_SCALE, NOISE_STABLE, adascale_gain
from mlcd.worker.session import Session, current


def batch_size(default: int) -> int:
    """Samples of one step over all ranks: what mlcd chose, or the default."""
    return current().env.batch_size or default


def local_batch_size(default: int) -> int:
    """Samples that one rank's loader should put into one batch.

    The default is a global size too: its share is taken. Where a rank cannot hold its share of a step at once, this is
    the part that goes with each of `accumulation_steps()`.
    """
    env = current().env
    share = env.local_batch_size or batch_size(default) / ranks.world_size(env)
    return max(1, round(share / env.accumulation_steps))


def accumulation_steps() -> int:
    """Backward passes whose gradients are to be added up before each step of the optimizer."""
    return current().env.accumulation_steps


@guard(1.0)
def lr_scale() -> float:
    """The factor for the learning rate at the chosen batch size, by the job's rule; 1 where it has none.

    linear     B/B₀
    sqrt       √(B/B₀)
    adascale   the gain of AdaScale, which lies between 1 and B/B₀ and follows the measured gradient noise

    With adascale ask again at every step. In a single process it then follows the noise as soon as that is stable; ranks
    that train together must not differ, so they use the noise known at their last checkpoint.
    """
    session = current()
    env = session.env
    growth = env.batch_size / env.base_batch_size if env.batch_size and env.base_batch_size else 1.0
    if env.lr_rule == "adascale":
        scale = _noise_scale(session)
        return adascale_gain(scale, 1.0, growth) if scale and growth else env.lr_scale or 1.0
    if env.lr_rule not in ("linear", "sqrt"):
        return 1.0
    return env.lr_scale or (growth if env.lr_rule == "linear" else growth**0.5)


def _noise_scale(session: Session) -> float:
    """The noise scale in batches of the base size, as far as all ranks know it alike; 0: not known."""
    env = session.env
    known = session.metrics if ranks.world_size(env) == 1 else session.metrics_before
    measured = known.get(NOISE_SCALE, 0.0) if known.get(NOISE_STABLE) else 0.0
    return (measured or env.noise_scale) / env.base_batch_size if env.base_batch_size else 0.0
