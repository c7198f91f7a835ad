"""Trains the Char-RNN to a target loss on this computer, twice, with one move on the way, and compares with the forecasts.

    python benchmarks/elastic_run/run.py OUT [--cores N] [--target 1.5] [--samples 150000] [--probes 5] [--hidden 96]

mlcd measures the gradient noise and chooses machines and batch size. When 40 % of the work is done, or the loss is within
0.25 of the target, the training is told to go on elsewhere (`mlcd move`): with another number of nodes, where there is
one. The first time only the user's cap tells how much work it is; the second time the first training's models do. OUT gets result.json, result.md, loss.html and both reports of mlcd.
"""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import asdict, dataclass
from math import inf
from pathlib import Path

from figures import draw, tabulate
from mlcd.api import Client
from mlcd.core.machines import Deployment
from mlcd.core.run import JobState
from mlcd.core.view import JobStory, JobView
from mlcd.errors import UserError
from mlcd.settings import read_settings

CHAR_RNN = Path(__file__).parents[2] / "examples" / "char_rnn"
MOVE_AT = 0.4  # of the expected work,
NEAR = 0.25  # or so near to the target, whichever comes first
METRIC = "val_loss"
STOP_SECONDS = 2.0  # to save and end, as mlcd itself reckons


@dataclass(frozen=True)
class Foreseen:
    """What was known when the training was told to move."""

    to: Deployment
    samples: float  # done then
    seconds: float  # forecast of the whole training with the move, from what the plan knew


def main() -> None:
    """Both trainings, then what there is to tell of them."""
    asked = _arguments()
    asked.out.mkdir(parents=True, exist_ok=True)
    os.environ["MLCD_HOME"] = str((asked.out / "home").absolute())
    os.environ["MLCD_LOCAL_CORES"] = str(asked.cores)
    client = Client(read_settings())
    try:
        runs = [_run(client, asked, name) for name in ("first", "second")]
    finally:
        client.close()
    (asked.out / "result.json").write_text(json.dumps(runs, indent=1))
    (asked.out / "result.md").write_text(tabulate(runs))
    (asked.out / "loss.html").write_text(draw(runs, asked.target))
    print(tabulate(runs))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="a folder for what comes out; a new one each time")
    parser.add_argument("--cores", type=int, default=0, help="of this computer; 0: all")
    parser.add_argument("--target", type=float, default=1.5, help="validation loss in nats a character")
    parser.add_argument("--samples", type=int, default=150_000, help="at most")
    parser.add_argument("--probes", type=int, default=5, help="at most")
    parser.add_argument("--hidden", type=int, default=96, help="units of the network")
    return parser.parse_args()


def _run(client: Client, asked: argparse.Namespace, name: str) -> dict[str, object]:
    """One training to the target, moved once."""
    job_id = client.submit(client.load(_job(asked)))
    client.confirm(job_id)
    client.start(job_id)
    foreseen = _follow(client, job_id, asked.target)
    story = client.story(job_id)
    client.report(job_id, asked.out / f"report-{name}.html")
    if story.view.record.state is not JobState.SUCCEEDED:
        raise SystemExit(f"{job_id} is {story.view.record.state}: {story.view.record.error}")
    return _result(name, story, foreseen)


def _job(asked: argparse.Namespace) -> dict[str, object]:
    return {
        "name": "char-rnn",
        "workdir": str(CHAR_RNN),
        "run": "python train.py",
        "envs": {"HIDDEN": str(asked.hidden)},
        "platform": "pytorch",
        "num_nodes": "1..4",
        "batch_size": [8, 16, 32, 64],
        "learning_rate": {"rule": "sqrt", "base_batch_size": 32},
        "work": {
            "samples": asked.samples,
            "until": {"metric": METRIC, "value": asked.target, "direction": "down"},
        },
        "goal": "balanced",
        "search": {"max_probes": asked.probes},
        "probe": {"warmup_seconds": 1, "min_seconds": 4, "max_seconds": 12},
        "elastic": False,  # one move, and that is ours
    }


def _follow(client: Client, job_id: str, target: float) -> Foreseen | None:
    """Wait for the end; move once on the way."""
    foreseen = None
    for view in client.follow(job_id):
        if foreseen is None and _time_to_move(view, target):
            foreseen = _move(client, view)
    return foreseen


def _move(client: Client, view: JobView) -> Foreseen | None:
    """Ask for the move; None: it was done before it could be asked."""
    foreseen = _foresee(client, view)
    try:
        client.move(view.record.id, instance=foreseen.to.offer.instance.name, nodes=foreseen.to.nodes)
    except UserError:
        return None
    return foreseen


def _time_to_move(view: JobView, target: float) -> bool:
    if view.record.state is not JobState.TRAINING or view.live is None or not view.run.attempts:
        return False
    begun = view.run.attempts[0].samples_before
    rest = view.work(view.record.deployment) - begun
    far = view.live.samples - begun >= MOVE_AT * rest
    return view.live.samples_per_second > 0 and (far or view.live.metrics.get(METRIC, inf) <= target + NEAR)


def _foresee(client: Client, view: JobView) -> Foreseen:
    """Where to: the fastest other number of nodes, or else kind of machine; and what the plan's knowledge says of it."""
    here, speeds = view.record.deployment, _speeds(client.story(view.record.id))
    others = [one for one in speeds if one != here and one.batch_size == here.batch_size]
    if not others:
        raise SystemExit(f"{here}: there is nothing else to move to.")
    same_kind = here.offer.instance.name
    to = max(others, key=lambda one: (one.offer.instance.name == same_kind, speeds[one]))
    begun, now = view.run.attempts[0].samples_before, view.live.samples if view.live else 0.0
    left = max(0.0, view.work(here) - now)
    start = view.start_seconds
    seconds = start + (now - begun) / speeds[here] + STOP_SECONDS + start + left / speeds[to]
    return Foreseen(to, now, seconds)


def _speeds(story: JobStory) -> dict[Deployment, float]:
    """Samples a second: measured, or else believed."""
    believed = {one.deployment: one.samples_per_second for one in (story.beliefs[-1] if story.beliefs else ())}
    measured = {t.deployment: t.measurement.samples_per_second for t in story.view.trials if t.measurement}
    return {**believed, **measured}


def _result(name: str, story: JobStory, foreseen: Foreseen | None) -> dict[str, object]:
    """Everything worth telling, as JSON holds it."""
    view = story.view
    plan, attempts = view.record.plan, view.run.attempts
    assert plan is not None
    ended = attempts[-1].ended_at or attempts[-1].started_at + attempts[-1].seconds
    return {
        "run": name,
        "job": view.record.id,
        "probes": len(view.trials),
        "search_seconds": view.search.seconds,
        "chosen": str(plan.deployment),
        "noise_scale": view.record.learnt.get("noise_scale"),
        "samples_expected": view.work(plan.deployment),
        "samples_before": attempts[0].samples_before,
        "samples": view.run.samples,
        "forecast": asdict(plan.forecast),
        "moved_to": None if foreseen is None else str(foreseen.to),
        "moved_at_samples": None if foreseen is None else foreseen.samples,
        "forecast_with_move_seconds": None if foreseen is None else foreseen.seconds,
        "training_seconds": ended - attempts[0].started_at,
        "move_seconds": view.run.move_seconds,
        "total_seconds": view.spent.seconds,
        "total_usd": view.spent.usd,
        "learnt": [event.message for event in story.events if event.kind == "learn"],
        "decisions": [event.message for event in story.events if event.kind == "decision"],
        "moves_at": [one.started_at - attempts[0].started_at for one in attempts[1:]],
        "val_loss": [(one.seconds, one.value) for one in story.metrics if one.name == METRIC],
        "loss": [(one.seconds, one.value) for one in story.metrics if one.name == "loss"],
    }


if __name__ == "__main__":
    main()
