"""Strategies by what the user writes."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from mlcd.core.study import Study
from mlcd.errors import MissingExtraError, UserError
from mlcd_bench.papers.model_facts import MODELS
from mlcd_bench.protocol import Rules, Scenario, set_problem
from mlcd_bench.strategies import NarrowedSearcher, parse_strategy
from small_cases import FAST, SLOW, Script, one, small_case


def test_options_are_read_as_what_they_are() -> None:
    strategy = parse_strategy("paleo:parameters=1e6:servers=2:communication=parameter-server")
    assert dict(strategy.options) == {"parameters": 1e6, "servers": 2, "communication": "parameter-server"}


def test_paleo_takes_its_facts_from_the_workload_and_applies_only_where_there_are_some() -> None:
    paleo = parse_strategy("paleo")
    assert paleo.applies_to("ResNet-50-b128")
    assert not paleo.applies_to("terasort")
    assert paleo.open("ncf").facts == MODELS["ncf"]  # type: ignore[attr-defined]


def test_an_unknown_option_is_refused_by_name() -> None:
    with pytest.raises(UserError, match="random:size=3"):
        parse_strategy("random:size=3")


@pytest.mark.skipif(find_spec("smac") is not None, reason="smac is installed here")
def test_a_missing_package_names_its_install_line() -> None:
    with pytest.raises(MissingExtraError) as raised:
        parse_strategy("smac")
    assert raised.value.hint == "Install it: pip install 'mlcd[peers]'"


def test_a_narrowed_searcher_sees_only_its_types() -> None:
    seen: list[Study] = []
    problem = set_problem(small_case(), Scenario.FASTEST, 1.0, 2.0)
    assert problem is not None
    NarrowedSearcher(Script((), one(FAST, 1), seen.append), ("slow",)).suggest(problem.study(0, Rules()))
    assert {deployment.offer for deployment in seen[0].space} == {SLOW}
