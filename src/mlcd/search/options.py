"""A strategy with its options: each strategy brings them along, with their types, defaults and descriptions.

The fields of the strategy's dataclass are its options. A text in the type describes one:

    tries: Annotated[int, "how many deployments to try"] = 6
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace
from inspect import getdoc
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError

from mlcd import registry
from mlcd.core.job import Job, Resources, Servers, Topology
from mlcd.errors import InvalidJobError, did_you_mean
from mlcd.search.base import Searcher


@dataclass(frozen=True)
class Option:
    """One option of a strategy."""

    name: str
    type: Any
    default: Any
    about: str  # empty: nobody described it

    def __str__(self) -> str:
        return f"{self.name} (default {self.default!r}): {self.about}".removesuffix(": ")


def searcher_for(job: Job) -> Searcher:
    """The strategy that a job asks for, with its options."""
    return open_strategy(job.search.strategy, job.search.options)


def as_searched(job: Job) -> Job:
    """The job with what its strategy says of machines, so that moves while it trains keep to that, too."""
    searcher = searcher_for(job)
    return _with_hourly_cap(_with_open_servers(job, searcher), searcher)


def _with_open_servers(job: Job, searcher: Searcher) -> Job:
    """A strategy that chooses parameter servers may take any, where the job does not say which.

    A job that was stored without `servers` has them of the workers' type.
    """
    leaves_open = job.topology is Topology.PS and job.servers is None
    if not leaves_open or not getattr(searcher, "chooses_servers", False):
        return job
    named = getattr(searcher, "parameter_server", "")
    return replace(job, servers=Servers((named,) if named else ()))


def _with_hourly_cap(job: Job, searcher: Searcher) -> Job:
    """What all nodes may cost by a strategy's option `usd_per_hour` holds for the job as its own cap does."""
    most: float | None = getattr(searcher, "usd_per_hour", None)
    if most is None:
        return job
    resources = job.resources or (Resources(),)
    caps = (most if each.max_usd_per_hour is None else min(most, each.max_usd_per_hour) for each in resources)
    return replace(
        job, resources=tuple(replace(each, max_usd_per_hour=cap) for each, cap in zip(resources, caps, strict=True))
    )


def in_words_of(job: Job, error: InvalidJobError) -> InvalidJobError:
    """What is wrong with the job as it is searched, said of what it says itself."""
    own = [each.max_usd_per_hour for each in job.resources if each.max_usd_per_hour is not None]
    if own or error.key != "resources.max_hourly_cost":
        return error
    return InvalidJobError(
        error.message.replace("max_hourly_cost", "usd_per_hour"), error.hint, "search.options.usd_per_hour"
    )


def open_strategy(name: str, options: Mapping[str, Any]) -> Searcher:
    """The strategy of that name with these options; an option that does not fit is named."""
    strategy: Callable[..., Searcher] = registry.load("searchers", name)
    known = {option.name: option for option in options_of(strategy)}
    try:
        return strategy(**{key: _checked(name, key, value, known) for key, value in options.items()})
    except (TypeError, ValueError) as error:
        raise InvalidJobError(
            f"The strategy '{name}' does not take these options: {error}.",
            "Fix `search.options`.",
            "search.options",
        ) from error


def about(name: str) -> str:
    """What the strategy of that name does: the first line of its docstring."""
    return (getdoc(registry.load("searchers", name)) or "").partition("\n")[0]


def options_of(strategy: Callable[..., Searcher]) -> tuple[Option, ...]:
    """The options of a strategy, in the order of its fields."""
    if not is_dataclass(strategy):
        return ()
    hints = get_type_hints(strategy, include_extras=True)
    return tuple(
        Option(each.name, hints[each.name], _default(each), _description(hints[each.name]))
        for each in fields(strategy)
        if each.init
    )


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _description(hint: Any) -> str:
    return next((text for text in getattr(hint, "__metadata__", ()) if isinstance(text, str)), "")


def _checked(strategy: str, name: str, value: Any, known: Mapping[str, Option]) -> Any:
    """The value as the option's type."""
    where = f"search.options.{name}"
    if name not in known:
        hint = did_you_mean(name, known) if known else "It has no options."
        raise InvalidJobError(f"The strategy '{strategy}' has no option '{name}'.", hint, where)
    try:
        return TypeAdapter(known[name].type).validate_python(value)
    except ValidationError as error:
        problem = error.errors()[0]["msg"]
        raise InvalidJobError(
            f"The option '{name}' of the strategy '{strategy}' cannot be {value!r}: {problem}.",
            f"{known[name]}.",
            where,
        ) from error
