"""Small cases whose best deployment can be worked out on paper."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mlcd.core.machines import Deployment, InstanceType, Offer
from mlcd.core.study import Belief, Stop, Study
from mlcd_bench.cases import Case

SLOW = Offer("replay", InstanceType("slow"), usd_per_hour=1.0, max_nodes=4)
FAST = Offer("replay", InstanceType("fast"), usd_per_hour=8.0, max_nodes=4)


def one(offer: Offer, nodes: int = 1, batch: int | None = None) -> Deployment:
    """A deployment in few letters."""
    return Deployment(offer, nodes, batch)


def small_case() -> Case:
    """Slow machines scale well and are cheap; fast ones are quick, dear, and fail on four nodes.

    At 1 hour for the fastest (2 fast nodes, 1,000/s): 1 slow 10 h $10, 4 slow 2.5 h $10, 1 fast 1.25 h $10,
    2 fast 1 h $16.
    """
    speeds = {
        one(SLOW, 1): 100.0,
        one(SLOW, 4): 400.0,
        one(FAST, 1): 800.0,
        one(FAST, 2): 1000.0,
        one(FAST, 4): None,
    }
    return Case("paper", "small", None, tuple(speeds.items()), ((None, 5000.0),))


@dataclass(frozen=True)
class Script:
    """A searcher that tries what it is told to and then takes what it is told to."""

    tries: tuple[Deployment, ...]
    choice: Deployment | None
    watch: Callable[[Study], None] = lambda study: None

    def suggest(self, study: Study) -> Deployment | Stop:
        self.watch(study)
        if len(study.trials) < len(self.tries) and study.probes_left:
            return self.tries[len(study.trials)]
        return Stop(self.choice, "as told")

    def beliefs(self, study: Study) -> tuple[Belief, ...]:
        return ()
