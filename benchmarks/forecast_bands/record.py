"""Records how trainings went beside their forecasts: `python record.py FOLDER [REPEATS]`.

Each program of programs.py is searched and trained by mlcd on one core of this computer, in turn on the computer as it is
and with two busy loops beside it. What the probe reported and what the training took is written to runs.json, a job at
a time, so that any way to forecast can be held against it afterwards (cover.py).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from programs import KINDS

from mlcd.api import Client
from mlcd.clouds.local.settings import LocalSettings
from mlcd.clouds.progress_files import read_progress
from mlcd.core.run import JobState
from mlcd.core.view import JobView
from mlcd.engine.tasks import task_folder
from mlcd.settings import Settings

BUSY_LOOPS = 2
_BURN = "while True: pass"


def main(folder: Path, repeats: int) -> None:
    """Train everything, again and again."""
    folder.mkdir(parents=True, exist_ok=True)
    for repeat in range(repeats):
        for kind in KINDS:
            for busy in (False, True):
                with busy_loops(BUSY_LOOPS if busy else 0):
                    run = record(folder / f"{kind}-{busy}-{repeat}", kind)
                add(folder / "runs.json", run | {"busy": busy})


def record(folder: Path, kind: str) -> dict[str, Any]:
    """One job from its search to its end."""
    program, samples = KINDS[kind]
    (folder / "code").mkdir(parents=True)
    (folder / "code" / "train.py").write_text(program)
    client = Client(Settings(home=folder / "home", clouds=(LocalSettings(cores=1),)))
    job = {
        "name": kind,
        "workdir": str(folder / "code"),
        "run": f"{sys.executable} train.py",
        "work": {"samples": samples},
        "goal": "fastest",
        "elastic": False,
        "num_nodes": 1,
        "resources": {"instance_type": "local-1c"},
        "checkpoint": {"carry": False},
        "probe": {"max_seconds": 10},
    }
    job_id = client.submit(client.load(job))
    client.confirm(job_id)
    client.start(job_id)
    view = list(client.follow(job_id))[-1]
    launched_at = {task.id: task.intended_at for task in client.store.tasks(job_id)}
    client.close()
    return facts(view, kind, folder / "home" / "jobs" / job_id, launched_at)


def facts(view: JobView, kind: str, folder: Path, launched_at: dict[str, float]) -> dict[str, Any]:
    """What was foretold, what it was foretold from, and what came."""
    load = os.getloadavg()[0]
    if view.record.state is not JobState.SUCCEEDED or len(view.trials) != 1 or len(view.run.attempts) != 1:
        return {"kind": kind, "load": load, "error": view.record.error or "not one probe and one attempt"}
    (trial,), (attempt,), plan = view.trials, view.run.attempts, view.record.plan
    assert plan is not None
    points = read_progress(task_folder(folder, trial.task_id) / "progress", 0.0).points
    first = points[0].seconds if points else 0.0
    return {
        "kind": kind,
        "load": load,
        "samples": view.record.job.work.samples if view.record.job.work else 0.0,
        "phases": asdict(trial.phases),
        "first": first - launched_at[trial.task_id],
        "points": [
            (round(point.seconds - first, 4), point.steps, point.samples)
            for point in points
            if point.seconds - first <= trial.phases.warmup + trial.phases.measuring
        ],
        "forecast": [plan.forecast.low_seconds, plan.forecast.seconds, plan.forecast.high_seconds],
        "seconds": attempt.seconds,
        "first_step": None if attempt.first_step_at is None else attempt.first_step_at - attempt.started_at,
    }


@contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """So many processes that never rest."""
    loops = [subprocess.Popen([sys.executable, "-c", _BURN]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def add(file: Path, run: dict[str, Any]) -> None:
    """One more run in the file."""
    runs = json.loads(file.read_text()) if file.exists() else []
    file.write_text(json.dumps([*runs, run]) + "\n")
    sys.stdout.write(f"{run['kind']} busy={run['busy']} {run.get('forecast', run.get('error'))} {run.get('seconds')}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 4)
