"""Many episodes on all cores: the same figures whatever the number of processes."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache

from mlcd.errors import MlcdError, UserError
from mlcd_bench.cases import Case
from mlcd_bench.episode import Episode, run_episode
from mlcd_bench.hindsight import Rule, best_rules, run_with_every_rule
from mlcd_bench.protocol import Hours, Problem, Rules, Scenario, set_problem
from mlcd_bench.strategies import Strategy

Report = Callable[[int, int], None]  # episodes done, episodes in all

_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


@dataclass(frozen=True)
class Bench:
    """What to run: every case with every strategy, scenario, job size, slack and seed."""

    cases: tuple[Case, ...]
    strategies: tuple[Strategy, ...]
    scenarios: tuple[Scenario, ...] = tuple(Scenario)
    hours: tuple[Hours, ...] = (24.0,)
    slacks: tuple[float, ...] = (2.0,)
    seeds: int = 5
    peer_seeds: int = 1  # peers are slow
    rules: Rules = Rules()


@dataclass(frozen=True)
class Results:
    """The episodes in the order of the bench, and the stop rule that served each peer best."""

    episodes: tuple[Episode, ...]
    stop_rules: Mapping[tuple[str, str, Hours], Rule]  # peer, scenario, hours
    not_applicable: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict
    )  # strategy, and workloads it lacks facts of


@dataclass(frozen=True)
class _WorkItem:
    """One episode to run, small enough to send to another process."""

    case: int
    strategy: int
    scenario: Scenario
    hours: Hours
    slack: float
    seed: int


def run_bench(bench: Bench, jobs: int = 0, report: Report | None = None) -> Results:
    """Run everything in that many processes; 0: in this one."""
    items = list(_work_items(bench))
    if not items:
        raise _nothing_to_run(bench)
    outcomes: list[dict[Rule | None, Episode]] = []
    for outcome in _outcomes(bench, items, jobs):
        outcomes.append(outcome)
        if report is not None:
            report(len(outcomes), len(items))
    rules = best_rules(outcomes)
    return Results(tuple(_listed(bench, outcomes, rules)), rules, _not_applicable(bench))


def _nothing_to_run(bench: Bench) -> UserError:
    missing = _not_applicable(bench)
    if len(missing) == len(bench.strategies):
        names = ", ".join(missing)
        return UserError(f"{names}: not applicable to any workload.", "Give the model's facts as options.")
    return UserError("There is nothing to run.", "No trace says how large its own job is: give --hours a number.")


def _not_applicable(bench: Bench) -> dict[str, tuple[str, ...]]:
    """The workloads that a strategy cannot be tried on, for want of facts about their models."""
    workloads = tuple(dict.fromkeys(case.workload for case in bench.cases))
    missing = {
        strategy.text: tuple(each for each in workloads if not strategy.applies_to(each))
        for strategy in bench.strategies
    }
    return {text: those for text, those in missing.items() if those}


def _work_items(bench: Bench) -> Iterator[_WorkItem]:
    """Every episode once; without a limit the slack changes nothing, so the first stands for all."""
    left_out = _not_applicable(bench)
    for case in range(len(bench.cases)):
        for hours in bench.hours:
            if hours == "trace" and not bench.cases[case].samples:
                continue
            for scenario in bench.scenarios:
                slacks = bench.slacks[:1] if scenario is Scenario.FASTEST else bench.slacks
                for slack in slacks:
                    for number, strategy in enumerate(bench.strategies):
                        if bench.cases[case].workload in left_out.get(strategy.text, ()):
                            continue
                        for seed in range(bench.peer_seeds if strategy.peer else bench.seeds):
                            yield _WorkItem(case, number, scenario, hours, slack, seed)


def _listed(
    bench: Bench,
    outcomes: Iterable[Mapping[Rule | None, Episode]],
    rules: Mapping[tuple[str, str, Hours], Rule],
) -> Iterator[Episode]:
    for outcome in outcomes:
        first = next(iter(outcome.values()))
        episode = outcome.get(rules.get((first.strategy, first.scenario, first.hours)), first)
        slacks = bench.slacks if episode.scenario == Scenario.FASTEST else (episode.slack,)
        yield from (replace(episode, slack=slack) for slack in slacks)


def _outcomes(bench: Bench, items: list[_WorkItem], jobs: int) -> Iterator[dict[Rule | None, Episode]]:
    if jobs <= 0:
        yield from (_play(bench, item) for item in items)
        return
    chunk = max(1, min(32, len(items) // (8 * jobs)))
    spawn = multiprocessing.get_context("spawn")
    with one_thread_each(), spawn.Pool(min(jobs, len(items)), _start_worker, (bench,)) as pool:
        yield from pool.imap(_play_here, items, chunksize=chunk)


@contextmanager
def one_thread_each() -> Iterator[None]:
    """Processes started meanwhile use one core each; linear algebra would otherwise fight over all of them."""
    before = {name: os.environ.get(name) for name in _ONE_THREAD}
    os.environ.update(dict.fromkeys(_ONE_THREAD, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


_bench_here: Bench | None = None  # in a worker process: what it was started for


def end_with_parent() -> None:
    """This process of a pool ends when the one that asks it does, were it killed: else it would wait for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_exit_after, args=(parent,), daemon=True).start()


def _exit_after(parent: multiprocessing.process.BaseProcess) -> None:
    parent.join()
    os._exit(1)


def _start_worker(bench: Bench) -> None:
    end_with_parent()
    global _bench_here  # a process of the pool has no other place to keep it
    _bench_here = bench


def _play_here(item: _WorkItem) -> dict[Rule | None, Episode]:
    if _bench_here is None:
        raise MlcdError("A benchmark process got an episode before it got the benchmark.")
    return _play(_bench_here, item)


def _play(bench: Bench, item: _WorkItem) -> dict[Rule | None, Episode]:
    strategy = bench.strategies[item.strategy]
    problem = _problem(bench.cases[item.case], item.scenario, item.hours, item.slack)
    searcher = strategy.open(bench.cases[item.case].workload)
    if strategy.peer:
        return run_with_every_rule(problem, strategy.text, searcher, item.seed, bench.rules)
    return {None: run_episode(problem, strategy.text, searcher, item.seed, bench.rules)}


@lru_cache(maxsize=64)
def _problem(case: Case, scenario: Scenario, hours: Hours, slack: float) -> Problem:
    problem = set_problem(case, scenario, hours, slack)
    if problem is None:
        raise UserError(f"{case.name} does not say how large its own job is.")
    return problem
