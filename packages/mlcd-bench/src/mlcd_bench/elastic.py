"""A training that can checkpoint, played on the recorded truth: it moves when the policies of adapt/ say so.

What the search measured is known with its interval; where the training runs, its true speed is seen. A move costs
the start of the next deployment, all its nodes billed, and the work goes on from where it was.
"""

from __future__ import annotations

from mlcd.adapt.base import Move, Situation, Speed
from mlcd.adapt.policies import WATCH_SECONDS, decide
from mlcd.core.machines import Deployment
from mlcd.core.study import Ledger, Study
from mlcd.search.trials import measured_trials
from mlcd_bench.protocol import Problem, Rules

STEP_SHARE = 0.02  # of the time that is left: how far the training goes on before a move is considered again
LEAST_STEP_SECONDS = 60.0
SEEN_SHARE = 0.01  # half-width of the interval of a speed that is seen for as long as a training


def train_elastically(
    problem: Problem, study: Study, spent: Ledger, start: Deployment, rules: Rules
) -> tuple[Ledger, Deployment]:
    """Time and money of the whole job, from what the search has spent to the end of the training, and where it ends."""
    here, left, moves = start, 1.0, 0
    known = {
        trial.deployment: Speed(seen.samples_per_second, seen.low, seen.high)
        for trial in measured_trials(study)
        if (seen := trial.measurement) is not None
    }
    while left > 0:
        speed, work = problem.case.speeds[here], study.work(here)
        known[here] = Speed(speed, speed * (1 - SEEN_SHARE), speed * (1 + SEEN_SHARE))
        course = decide(_situation(problem, study, spent, here, left * work, known, moves, rules))
        if isinstance(course, Move):
            spent, here, moves = (
                _after_start(study, spent, course.deployment, rules),
                course.deployment,
                moves + 1,
            )
            continue
        rest = left * work / speed
        step = min(rest, max(STEP_SHARE * rest, LEAST_STEP_SECONDS))
        spent = Ledger(spent.seconds + step, spent.usd + here.usd(step))
        left = 0.0 if step == rest else left - step * speed / work
    return spent, here


def _situation(
    problem: Problem,
    study: Study,
    spent: Ledger,
    here: Deployment,
    samples_left: float,
    known: dict[Deployment, Speed],
    moves: int,
    rules: Rules,
) -> Situation:
    return Situation(
        goal=problem.goal,
        spent=spent,
        deployment=here,
        now=known[here],
        watched_seconds=WATCH_SECONDS,
        samples_left=samples_left,
        speeds=known,
        move_seconds=max(_start_seconds(study, deployment, rules) for deployment in known),
        moves=moves,
        samples_at=study.samples_at,
    )


def _start_seconds(study: Study, deployment: Deployment, rules: Rules) -> float:
    return rules.start_share * study.probe_seconds(deployment)


def _after_start(study: Study, spent: Ledger, deployment: Deployment, rules: Rules) -> Ledger:
    seconds = _start_seconds(study, deployment, rules)
    return Ledger(spent.seconds + seconds, spent.usd + deployment.usd(seconds))
