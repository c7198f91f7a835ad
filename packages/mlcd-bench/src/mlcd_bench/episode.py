"""One search and the training that follows it, played on the recorded truth.

    Study ──suggest──▶ Deployment ──probe──▶ Trial ──with_trial──▶ Study ──suggest──▶ … ──▶ Stop ──train──▶ Episode

A search that ends without a deployment, or with one that fails, is not let off: its user still has to train. He
takes what the search has measured, the best that keeps the limit or else the nearest to it, and where nothing was
measured the worst deployment that keeps the limit. So giving up is never better than choosing, it is counted as
a limit broken where the total passes it, and its share is reported beside. A choice that fails costs one more
probe: the time until its user knows.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from mlcd.core.machines import Deployment
from mlcd.core.progress import Usage
from mlcd.core.study import Ledger, Stop, Study
from mlcd.core.trial import Failure, Measurement, Phases, Trial
from mlcd.errors import MlcdError
from mlcd.search.base import Searcher
from mlcd.search.limits import best_feasible, nearest
from mlcd_bench.cases import Batch, Case
from mlcd_bench.elastic import train_elastically
from mlcd_bench.protocol import Hours, Problem, Rules


@dataclass(frozen=True)
class Episode:
    """How one search and its training went, beside the oracle."""

    trace: str
    workload: str
    batch: Batch
    strategy: str
    scenario: str
    hours: Hours
    slack: float
    seed: int
    chosen: str | None  # key of the deployment; None: the search ended without one
    ended_on: str  # key of the deployment that the training ended on
    total_hours: float  # search and training
    total_usd: float
    limit: float | None  # hours or dollars
    oracle_hours: float
    oracle_usd: float
    ratio: float  # total ÷ oracle's, in hours or dollars as the scenario counts
    broken: bool  # the total passes the limit
    finished: bool  # the search ended with a deployment that works
    probes: int
    improving: int  # of the probes found something better for the training than all before
    search_share: float  # of the total, in the scenario's unit
    decision_seconds: float  # mean of a decision
    search_hours: float
    search_usd: float


@dataclass(frozen=True)
class Search:
    """A search at its end."""

    study: Study
    stop: Stop
    decisions: int
    deciding_seconds: float


def run_episode(problem: Problem, strategy: str, searcher: Searcher, seed: int, rules: Rules) -> Episode:
    """Search, train, and compare with the oracle."""
    return close_episode(problem, strategy, seed, play_search(problem, searcher, seed, rules), rules)


def play_search(problem: Problem, searcher: Searcher, seed: int, rules: Rules, max_probes: int | None = None) -> Search:
    """Ask and probe until the searcher stops."""
    return continue_search(problem, replace(problem.study(seed, rules), max_probes=max_probes), searcher, rules)


def continue_search(problem: Problem, study: Study, searcher: Searcher, rules: Rules) -> Search:
    """Ask and probe from this study on, until the searcher stops."""
    deciding_seconds = 0.0
    for decisions in range(1, _most_decisions(study) + 1):
        before = time.perf_counter()
        answer = searcher.suggest(study)
        deciding_seconds += time.perf_counter() - before
        if isinstance(answer, Stop):
            return Search(study, answer, decisions, deciding_seconds)
        study = after_probe(problem, study, answer, rules)
        if study.samples <= 0:
            return Search(study, Stop(answer, "the probes finished the job"), decisions, deciding_seconds)
    raise MlcdError(f"{type(searcher).__name__} does not come to an end on {problem.case.name}, seed {study.seed}.")


def after_probe(problem: Problem, study: Study, deployment: Deployment, rules: Rules) -> Study:
    """The study after this deployment was probed; with `carry` the work left shrinks by what the probe trained."""
    trial = probe(problem, study, deployment, rules)
    left = _share_left(study, trial, rules)
    samples_at = {batch: samples * left for batch, samples in study.samples_at.items()}
    return replace(study.with_trial(trial), samples=study.samples * left, samples_at=samples_at)


def probe(problem: Problem, study: Study, deployment: Deployment, rules: Rules) -> Trial:
    """What trying a deployment gives; a failure costs as much as a measurement."""
    seconds = study.probe_seconds(deployment)
    speed = problem.case.speeds.get(deployment)
    if speed is None:
        outcome = Failure(problem.case.failing, "this deployment failed when it was recorded")
        return Trial(deployment, outcome, seconds, deployment.usd(seconds))
    phases = _phases(study, deployment, speed, seconds, rules)
    repeats = sum(trial.deployment == deployment for trial in study.trials)
    seen = speed * math.exp(rules.noise * _standard_normal(problem.case, deployment, study.seed, repeats))
    spread = math.exp(1.96 * rules.noise)
    usage = Usage(network_mbps=problem.case.received_bits * seen / deployment.workers / 1e6)
    measurement = Measurement(seen, seen / spread, seen * spread, samples=speed * phases.measuring, usage=usage)
    return Trial(deployment, measurement, phases.total, deployment.usd(phases.total), phases)


def close_episode(problem: Problem, strategy: str, seed: int, search: Search, rules: Rules) -> Episode:
    """The account of a search that has ended and of the training after it."""
    study, chosen = search.study, search.stop.choice
    finished = chosen in problem.trainings
    spent = study.spent if finished or chosen is None else _after_failed_start(study, chosen)
    taken = chosen if chosen is not None and finished else _fallback(problem, study)
    total, last = _total(problem, study, spent, taken, rules)
    best = problem.trainings[problem.oracle]
    return Episode(
        trace=problem.case.trace,
        workload=problem.case.workload,
        batch=problem.case.batch,
        strategy=strategy,
        scenario=str(problem.scenario),
        hours=problem.hours,
        slack=problem.slack,
        seed=seed,
        chosen=chosen.key if chosen is not None and finished else None,
        ended_on=last.key,
        total_hours=total.seconds / 3600.0,
        total_usd=total.usd,
        limit=problem.limit,
        oracle_hours=best.seconds / 3600.0,
        oracle_usd=best.usd,
        ratio=problem.value(total) / problem.value(best),
        broken=not problem.goal.allows(total.seconds, total.usd),
        finished=finished,
        probes=len(study.trials),
        improving=_improving(problem, study),
        search_share=problem.value(spent) / problem.value(total),
        decision_seconds=search.deciding_seconds / search.decisions,
        search_hours=spent.seconds / 3600.0,
        search_usd=spent.usd,
    )


def states_of(problem: Problem, search: Search, rules: Rules) -> Iterator[Study]:
    """The study before the first probe of a search and after every one."""
    study = replace(problem.study(search.study.seed, rules), max_probes=search.study.max_probes)
    yield study
    for trial in search.study.trials:
        study = after_probe(problem, study, trial.deployment, rules)
        yield study


def _most_decisions(study: Study) -> int:
    # Repeats are allowed, looking for ever is not.
    return 10 * len(study.space) + 100


def _phases(study: Study, deployment: Deployment, speed: float, seconds: float, rules: Rules) -> Phases:
    """Where the probe's time goes; one that carries on the training ends when there is nothing left to train."""
    start = rules.start_share * seconds
    measuring = seconds - start
    if rules.carry:
        measuring = min(measuring, study.work(deployment) / speed)
    return Phases(start=start, measuring=measuring)


def _share_left(study: Study, trial: Trial, rules: Rules) -> float:
    """What is left of the work after a probe; a rounding error of it is nothing."""
    if not rules.carry or trial.measurement is None:
        return 1.0
    left = 1.0 - trial.measurement.samples / study.work(trial.deployment)
    return left if left > 1e-9 else 0.0


def _standard_normal(case: Case, deployment: Deployment, seed: int, repeats: int) -> float:
    """Noise fixed by what is measured: every strategy sees the same, in whatever order and process it asks."""
    text = "\n".join((case.trace, case.workload, str(case.batch), deployment.key, str(seed), str(repeats)))
    digest = hashlib.sha256(text.encode()).digest()
    return float(np.random.default_rng(int.from_bytes(digest[:16], "big")).standard_normal())


def _after_failed_start(study: Study, chosen: Deployment) -> Ledger:
    return Ledger(study.spent.seconds + study.probe_seconds(chosen), study.spent.usd + study.probe_usd(chosen))


def _improving(problem: Problem, study: Study) -> int:
    best, count = math.inf, 0
    for trial in study.trials:
        training = problem.trainings.get(trial.deployment)
        if training is not None and problem.value(training) < best:
            best, count = problem.value(training), count + 1
    return count


def best_known(study: Study) -> Deployment | None:
    """The best deployment measured so far: within the limits, or else nearest to them."""
    best = best_feasible(study) or nearest(study)
    return None if best is None else best.deployment


def _fallback(problem: Problem, study: Study) -> Deployment:
    return best_known(study) or problem.worst


def _total(
    problem: Problem, study: Study, spent: Ledger, chosen: Deployment, rules: Rules
) -> tuple[Ledger, Deployment]:
    if rules.carry:
        return train_elastically(problem, study, spent, chosen, rules)
    seconds = study.work(chosen) / problem.case.speeds[chosen]
    return Ledger(spent.seconds + seconds, spent.usd + chosen.usd(seconds)), chosen
