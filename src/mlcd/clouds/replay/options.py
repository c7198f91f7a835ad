"""What can be said about a replay: the trace, the workload, noise, and how long probes take."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mlcd.core.study import ProbeTime
from mlcd.errors import UserError
from mlcd.settings import Settings

NAMES = frozenset(
    {
        "trace",
        "workload",
        "noise",
        "seed",
        "probe_first_seconds",
        "probe_step_seconds",
        "nodes_per_step",
        "start_seconds",
        "state",
    }
)


@dataclass(frozen=True)
class ReplayOptions:
    """The options, read."""

    trace: Path  # a CSV file or a folder of them
    workload: str  # empty: the only one
    state: Path  # where virtual time and tasks are kept: one file for each job that is to go undisturbed
    noise: float = 0.0  # sigma of the log-normal factor on what a probe measures
    seed: int = 0
    probe_time: ProbeTime = ProbeTime()
    start_seconds: float = 0.0  # from a training's launch to its first step


def read_options(settings: Settings, options: Mapping[str, str]) -> ReplayOptions:
    """The options of a replay; what is wrong with them is named."""
    if not options.get("trace"):
        raise UserError("The replayed cloud needs a trace.", "Name a CSV file of recorded deployments: --trace FILE")
    trace = Path(options["trace"]).expanduser().absolute()
    workload = options.get("workload", "")
    usual = ProbeTime()
    return ReplayOptions(
        trace=trace,
        workload=workload,
        state=_state_file(settings, options.get("state", ""), trace, workload),
        noise=_number(options, "noise", 0.0),
        seed=int(_number(options, "seed", 0, whole=True)),
        probe_time=ProbeTime(
            first_seconds=_number(options, "probe_first_seconds", usual.first_seconds),
            step_seconds=_number(options, "probe_step_seconds", usual.step_seconds),
            nodes_per_step=max(1, int(_number(options, "nodes_per_step", usual.nodes_per_step, whole=True))),
        ),
        start_seconds=_number(options, "start_seconds", 0.0),
    )


def _state_file(settings: Settings, state: str, trace: Path, workload: str) -> Path:
    if state:
        return Path(state).expanduser().absolute()
    words = re.sub(r"[^A-Za-z0-9.]+", "-", f"{trace.stem}-{workload}").strip("-")
    return settings.home / "replay" / f"{words[:100] or 'trace'}.json"


def _number(options: Mapping[str, str], name: str, default: float, whole: bool = False) -> float:
    text = str(options.get(name, default))
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < math.inf or (whole and not number.is_integer()):
        kind = "a whole number" if whole else "a number"
        raise UserError(f"Option '{name}' of the replayed cloud is '{text}', not {kind} of zero or more.")
    return number
