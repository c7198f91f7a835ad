"""Strategies by what the user writes: `heterbo`, `random:k=10`, or a peer such as `optuna-tpe`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from mlcd import registry
from mlcd.core.machines import Deployment
from mlcd.core.study import Belief, Stop, Study
from mlcd.errors import NotFoundError, UserError, did_you_mean
from mlcd.search.base import Searcher
from mlcd_bench.papers.paleo import MissingFactsError
from mlcd_bench.peers import PEERS, check_installed, load_peer


@dataclass(frozen=True)
class Strategy:
    """A search strategy with its options, as plain values that travel to other processes."""

    text: str  # as the user wrote it
    name: str
    options: tuple[tuple[str, Any], ...] = ()
    only: tuple[str, ...] = ()  # the instance types that it may try; empty: all

    @property
    def peer(self) -> bool:
        """Whether it is another library behind an adapter."""
        return self.name in PEERS

    def applies_to(self, workload: str = "") -> bool:
        """Whether it has what it needs for this workload; one that computes needs facts about the model."""
        try:
            self.open(workload)
        except MissingFactsError:
            return False
        return True

    def open(self, workload: str = "") -> Searcher:
        """A searcher of this kind; the options that the user wrote go before what the workload's name tells."""
        make = load_peer(self.name) if self.peer else registry.load("searchers", self.name)
        told = make.options_for(workload) if hasattr(make, "options_for") else {}
        try:
            searcher: Searcher = make(**{**told, **dict(self.options)})
        except TypeError as error:
            raise UserError(f"Strategy '{self.text}': {error}.", "Options are written as name:option=value.") from error
        return NarrowedSearcher(searcher, self.only) if self.only else searcher


@dataclass(frozen=True)
class NarrowedSearcher:
    """A searcher that tries only the instance types that someone with experience has chosen."""

    inner: Searcher
    only: tuple[str, ...]

    def suggest(self, study: Study) -> Deployment | Stop:
        """What the searcher says of the smaller space."""
        return self.inner.suggest(self._narrow(study))

    def beliefs(self, study: Study) -> tuple[Belief, ...]:
        """What the searcher believes of the smaller space."""
        return self.inner.beliefs(self._narrow(study))

    def _narrow(self, study: Study) -> Study:
        kept = tuple(each for each in study.space if each.offer.instance.name in self.only)
        return replace(study, space=kept)


def parse_strategy(text: str) -> Strategy:
    """The strategy in `name` or `name:option=value:option=value`."""
    name, *options = text.strip().split(":")
    known = [*registry.names("searchers"), *PEERS]
    if name not in known:
        raise UserError(f"No search strategy is called '{name}'.", did_you_mean(name, known))
    strategy = Strategy(text.strip(), name, tuple(_option(text, option) for option in options))
    if strategy.peer:
        check_installed(name)
    else:
        _check(strategy)
    return strategy


def _check(strategy: Strategy) -> None:
    try:
        strategy.applies_to()
    except (NotFoundError, ImportError, AttributeError) as error:
        raise UserError(f"Strategy '{strategy.name}' cannot be loaded: {error}") from error


def _option(text: str, option: str) -> tuple[str, Any]:
    name, equals, value = option.partition("=")
    if not (name and equals and value):
        raise UserError(f"'{option}' in '{text}' is not an option.", "Write it as name:option=value, e.g. random:k=10.")
    return name, _value(value)


def _value(text: str) -> Any:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
