"""How many of the recorded trainings lie within the bands that mlcd forecasts: `python cover.py [runs.json]`.

Each forecast is made again from what the probe had reported, by the code as it is now.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from math import log
from pathlib import Path
from typing import Any

from mlcd.core.goal import Aim, Goal
from mlcd.core.job import ProbeSettings
from mlcd.core.machines import Deployment, InstanceType, Offer
from mlcd.core.plan import Forecast
from mlcd.core.progress import Point, Progress
from mlcd.core.study import Study
from mlcd.core.task import TaskState, TaskStatus
from mlcd.core.trial import Measurement, Trial
from mlcd.engine.probe_result import probe_phases, probe_result
from mlcd.engine.study import learnt_start
from mlcd.forecast.training_forecast import forecast_training

HERE = Deployment(Offer("local", InstanceType("local-1c"), 0.0, 1), 1)
RUNS = Path(__file__).with_name("runs.json")


def forecast_again(run: dict[str, Any]) -> Forecast | None:
    """What is forecast of a recorded training; None: the probe was too short to tell."""
    settings, phases = ProbeSettings(), run["phases"]
    begin = phases["start"] + phases["setup"]
    # When the first step was seen; early records leave it to be reckoned from the warm-up.
    first = run.get("first", begin + phases["warmup"] - settings.warmup_seconds)
    points = tuple(Point(first + seconds, steps, samples) for seconds, steps, samples in run["points"])
    ended_at = points[-1].seconds
    status = TaskStatus(
        TaskState.STOPPED,
        Progress(points),
        started_at=0.0,
        setup_at=phases["start"],
        running_at=begin,
        ended_at=ended_at,
    )
    seen = probe_result(status, ended_at, settings)
    if not isinstance(seen, Measurement):
        return None
    trial = Trial(HERE, seen, ended_at, 0.0, probe_phases(status, settings))
    start_seconds = learnt_start(None, [trial], settings.warmup_seconds)
    study = Study(Goal(Aim.FASTEST), (HERE,), run["samples"], (trial,), start_seconds=start_seconds)
    return forecast_training(study, HERE, seen)


def usable(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those with a probe and a training of its own."""
    return [run for run in runs if run.get("seconds", 0.0) > 0.0 and len(run["points"]) > 2]


def main(file: Path) -> None:
    """Print the share within the bands, by kind and in all, and how wide these are."""
    rows: dict[str, list[tuple[bool, float, float]]] = defaultdict(list)
    for run in usable(json.loads(file.read_text())):
        forecast = forecast_again(run)
        if forecast is not None:
            held = forecast.low_seconds <= run["seconds"] <= forecast.high_seconds
            width = log(forecast.high_seconds / forecast.low_seconds) / 2
            for name in (f"{run['kind']}, {'busy' if run['busy'] else 'as it was'}", "all"):
                rows[name].append((held, width, log(run["seconds"] / forecast.seconds)))
    for name, found in sorted(rows.items()):
        held = sum(one[0] for one in found)
        width, miss = (sum(abs(one[at]) for one in found) / len(found) for at in (1, 2))
        sys.stdout.write(f"{name:24} {held} of {len(found)}   band ± {width:.0%}   miss {miss:.0%}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else RUNS)
