"""The strategy that a job asks for."""

from __future__ import annotations

import inspect

from mlcd import registry
from mlcd.core.job import Job
from mlcd.errors import InvalidJobError, did_you_mean
from mlcd.search.base import Searcher


def searcher_for(job: Job) -> Searcher:
    """The strategy with its options; what is wrong with them is named."""
    settings = job.search
    strategy = registry.load("searchers", settings.strategy)
    known = inspect.signature(strategy).parameters
    for name in settings.options:
        if name not in known:
            raise InvalidJobError(
                f"The strategy '{settings.strategy}' has no option '{name}'.",
                did_you_mean(name, known),
                f"search.options.{name}",
            )
    searcher: Searcher = strategy(**settings.options)
    return searcher
