"""What to try next, when to stop, what to take. Pure: no I/O, no clock, no global randomness."""

from __future__ import annotations

from typing import Protocol

from mlcd.core.machines import Deployment
from mlcd.core.study import Belief, Stop, Study


class Searcher(Protocol):
    """A search strategy: a function of the study, so that it can be replayed, killed and resumed.

    A subclass of mlcd.testing.SearcherContract checks all the promises below.
    """

    def suggest(self, study: Study) -> Deployment | Stop:
        """The deployment to try next, or the end of the search. The same study gives the same answer.

        Never what is tried or pending already, unless the strategy repeats on purpose; never past
        study.max_probes; never a probe that takes away the best known feasible deployment (its reserve).
        """

    def beliefs(self, study: Study) -> tuple[Belief, ...]:
        """What is expected of each deployment of the space now, for explanations; may be empty."""
