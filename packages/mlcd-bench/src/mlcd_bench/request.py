"""What the user asked to compare, read from the words of the command line; whatever is wrong is said at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from mlcd.errors import NotFoundError, UserError, did_you_mean
from mlcd_bench.cases import Case, read_cases
from mlcd_bench.protocol import Hours, Rules, Scenario
from mlcd_bench.runner import Bench
from mlcd_bench.strategies import parse_strategy

T = TypeVar("T")


def read_request(
    traces: Sequence[str],
    strategies: str,
    scenarios: str,
    hours: str,
    slack: str,
    seeds: int,
    peer_seeds: int,
    rules: Rules,
) -> Bench:
    """The benchmark that these words ask for."""
    return Bench(
        cases=_cases(traces),
        strategies=_list(strategies, "--strategies", parse_strategy),
        scenarios=_list(scenarios, "--scenarios", _scenario),
        hours=_list(hours, "--hours", _hours),
        slacks=_list(slack, "--slack", _slack),
        seeds=seeds,
        peer_seeds=min(seeds, peer_seeds),
        rules=rules,
    )


def _cases(traces: Sequence[str]) -> tuple[Case, ...]:
    try:
        return read_cases(traces)
    except NotFoundError as error:
        raise UserError(error.message, error.hint) from error  # a usage error here: nothing was looked up by id


def _list(text: str, option: str, read: Callable[[str], T]) -> tuple[T, ...]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words:
        raise UserError(f"{option} names nothing.")
    return tuple(dict.fromkeys(read(word) for word in words))


def _scenario(word: str) -> Scenario:
    if word not in list(Scenario):
        raise UserError(f"No scenario is called '{word}'.", did_you_mean(word, list(Scenario)))
    return Scenario(word)


def _hours(word: str) -> Hours:
    if word == "trace":
        return "trace"
    hours = _number(word, "--hours", "Write numbers of hours, or trace: --hours 6,24.")
    if not 0 < hours < 1e6:
        raise UserError(f"--hours {word}: a job must take some time, and not for ever.")
    return hours


def _slack(word: str) -> float:
    slack = _number(word, "--slack", "Write numbers of at least 1: --slack 1.5,2,3.")
    if not 1 <= slack < 1e6:
        raise UserError(f"A slack of {word} leaves nothing that keeps the limit.", "Slack must be at least 1.")
    return slack


def _number(word: str, option: str, hint: str) -> float:
    try:
        return float(word)
    except ValueError as error:
        raise UserError(f"'{word}' in {option} is not a number.", hint) from error
