"""A strategy brings its options, their types, defaults and descriptions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest

from mlcd import registry
from mlcd.core.study import Belief, Stop, Study
from mlcd.errors import InvalidJobError
from mlcd.search.baselines import RandomSearch
from mlcd.search.options import about, open_strategy, options_of


@dataclass(frozen=True)
class Outsider:
    """Stops at once.

    The rest of the docstring is for readers of the code.
    """

    tries: Annotated[int, "how many deployments to try"] = 6

    def suggest(self, study: Study) -> Stop:
        return Stop(None, f"{self.tries}")

    def beliefs(self, study: Study) -> tuple[Belief, ...]:
        return ()


@pytest.fixture
def outsider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "load", lambda group, name: Outsider)


def test_options_come_with_default_and_description() -> None:
    assert [str(option) for option in options_of(Outsider)] == ["tries (default 6): how many deployments to try"]


@pytest.mark.usefixtures("outsider")
def test_a_strategy_from_outside_is_opened_with_its_options() -> None:
    assert open_strategy("outsider", {"tries": 4}) == Outsider(4)
    assert about("outsider") == "Stops at once."


@pytest.mark.usefixtures("outsider")
def test_a_value_of_the_wrong_type_is_refused_with_the_description() -> None:
    with pytest.raises(InvalidJobError, match="'tries' of the strategy 'outsider' cannot be 'six'") as caught:
        open_strategy("outsider", {"tries": "six"})
    assert caught.value.hint == "tries (default 6): how many deployments to try."


def test_an_option_that_is_not_there_is_named() -> None:
    with pytest.raises(InvalidJobError, match="'random' has no option 'kk'") as caught:
        open_strategy("random", {"kk": 3})
    assert "'k'" in (caught.value.hint or "")
    assert open_strategy("random", {"k": 3}) == RandomSearch(3)


@pytest.mark.parametrize("name", registry.names("searchers"))
def test_every_strategy_here_says_what_it_does(name: str) -> None:
    assert about(name)
    assert all(option.about for option in options_of(registry.load("searchers", name)))


def test_every_option_here_is_in_the_reference() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/job-file.md").read_text(encoding="utf-8")
    table = page.partition("### Strategies")[2].partition("\n## ")[0]
    known = {
        option.name for name in registry.names("searchers") for option in options_of(registry.load("searchers", name))
    }
    assert [name for name in sorted(known) if not re.search(rf"`{name}\b", table)] == []
