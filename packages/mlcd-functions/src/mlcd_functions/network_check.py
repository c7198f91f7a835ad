"""Refuses programs that would work on functions of this computer, and hang at AWS: functions cannot reach each other there."""

from __future__ import annotations

import re
from pathlib import Path

from mlcd.core.machines import Deployment
from mlcd.core.task import Task
from mlcd.errors import UserError
from mlcd_functions.service import isolation
from mlcd_functions.settings import FunctionsSettings

_MOST_FILES = 2000
_MOST_BYTES = 1 << 20
_CONNECTS = re.compile(
    r"jax\.distributed\.initialize|MultiWorkerMirroredStrategy|ParameterServerStrategy|kvstore[^\n]*dist_"
)


def refuse_connecting_program(task: Task, deployment: Deployment, settings: FunctionsSettings) -> None:
    """Where functions have no networks of their own, a program that connects several of them is not tried."""
    if deployment.nodes == 1 or settings.endpoint:
        return
    why = isolation.why_not() if settings.isolate else "functions.isolate is off"
    found = _connecting(Path(task.workdir)) if why and task.workdir else None
    if found is not None:
        file, call = found
        raise UserError(
            f"{file} calls {call}, which connects functions with each other: at AWS they cannot reach each other.",
            "Exchange gradients with mlcd.sync, or use one function. Functions of this computer would not show it: "
            f"they have no networks of their own ({why}).",
        )


def _connecting(workdir: Path) -> tuple[Path, str] | None:
    for _, file in zip(range(_MOST_FILES), sorted(workdir.rglob("*.py")), strict=False):
        try:
            with file.open(errors="replace") as stream:
                found = _CONNECTS.search(stream.read(_MOST_BYTES))
        except OSError:
            continue
        if found is not None:
            return file.relative_to(workdir), found[0]
    return None
