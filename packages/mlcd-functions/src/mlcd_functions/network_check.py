"""Refuses programs that cannot run on several functions, which cannot reach each other, before anything is paid for.

A program that exchanges by mlcd.sync besides is taken to know where it runs. Where functions of this computer have no networks of
their own, a program that connects them would work here, and hang at AWS: it is not launched either.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from pathlib import Path

from mlcd.core.job import Job, Topology
from mlcd.core.machines import Deployment
from mlcd.core.scripts import python_files
from mlcd.core.task import Task
from mlcd.errors import InvalidJobError, UserError
from mlcd_functions.service import isolation
from mlcd_functions.settings import FunctionsSettings

_CONNECTS = re.compile(
    r"jax\.distributed\.initialize|MultiWorkerMirroredStrategy|ParameterServerStrategy"
    r"|\b(?:kv|kvstore)\.create\(['\"]dist_|kvstore[^\n]*dist_"
)
_EXCHANGES = re.compile(r"mlcd\.sync|from mlcd import[^\n]*\bsync\b")
_CLUSTERS = {
    "mxnet": "MXNet's workers, servers and scheduler",
    "spark": "Spark's driver, master and workers",
}
_INSTEAD = {
    "tensorflow": "a Keras model by mlcd.sync.keras.share(model, group), any other by mlcd.sync.join()",
    "jax": "by mlcd.sync.jax.average(gradients, group)",
}


def refuse_program(job: Job, deployments: Sequence[Deployment]) -> None:
    """Raise InvalidJobError where the program could not train on one of these deployments of functions."""
    if not deployments:
        return
    if job.platform in _CLUSTERS:
        raise InvalidJobError(
            f"{_CLUSTERS[job.platform]} connect with each other, which functions cannot.",
            "Use another cloud, or exchange gradients with mlcd.sync and say `platform: command`.",
            "platform",
        )
    several = any(deployment.nodes > 1 for deployment in deployments)
    if job.topology is Topology.PS and job.platform in _INSTEAD:
        raise InvalidJobError(
            f"Parameter servers of {job.platform} are connected with, which functions cannot be.",
            _hint(job),
            "topology",
        )
    found = connecting_call(job.workdir) if several else None
    if found is not None:
        raise InvalidJobError(
            f"{found[0]} calls {found[1]}, which connects functions with each other: they cannot reach each other.",
            _hint(job),
            "num_nodes",
        )


def _hint(job: Job) -> str:
    how = _INSTEAD.get(job.platform, "with mlcd.sync")
    return f"Exchange gradients through a store, {how}; or use one function (`num_nodes: 1`), or another cloud."


def refuse_connecting_program(task: Task, deployment: Deployment, settings: FunctionsSettings) -> None:
    """Where functions have no networks of their own, a program that connects several of them is not tried."""
    if deployment.nodes == 1 or settings.endpoint:
        return
    why = isolation.why_not() if settings.isolate else "functions.isolate is off"
    found = connecting_call(task.workdir) if why else None
    if found is not None:
        file, call = found
        raise UserError(
            f"{file} calls {call}, which connects functions with each other: at AWS they cannot reach each other.",
            "Exchange gradients with mlcd.sync, or use one function. Functions of this computer would not show it: "
            f"they have no networks of their own ({why}).",
        )


def connecting_call(workdir: str) -> tuple[Path, str] | None:
    """A call that connects nodes, in a program that knows no other way."""
    files = [(file, _code(text)) for file, text in python_files(workdir)]
    if any(_EXCHANGES.search(code) for _, code in files):
        return None
    found = ((file, _CONNECTS.search(code)) for file, code in files)
    return next(((file, call[0]) for file, call in found if call is not None), None)


def _code(text: str) -> str:
    """The program without what it only says of itself: comments and descriptions."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return text
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            node.value = ast.Constant(None)
    return ast.unparse(tree)
