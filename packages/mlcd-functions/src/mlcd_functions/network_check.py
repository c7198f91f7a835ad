"""Refuses programs that cannot run on several functions, which cannot reach each other, before anything is paid for.

What counts is what the program calls (mlcd_functions.program_calls), not what its comments and texts mention.
A program that exchanges by mlcd.sync besides is taken to know where it runs. Where functions of this computer have no networks of
their own, a program that connects them would work here, and hang at AWS: it is not launched either.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mlcd.core.job import Job, Topology
from mlcd.core.machines import Deployment
from mlcd.core.task import Task
from mlcd.errors import InvalidJobError, UserError
from mlcd_functions.program_calls import Call, Source, sources
from mlcd_functions.service import isolation
from mlcd_functions.settings import FunctionsSettings

_STRATEGIES = frozenset({"MultiWorkerMirroredStrategy", "ParameterServerStrategy"})  # TensorFlow's, under any name
_CALLS = frozenset({"jax.distributed.initialize", "torch.distributed.rpc.init_rpc"})
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
    found = connecting_call(job.run, job.workdir) if several else None
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
    found = connecting_call(task.run, task.workdir) if why else None
    if found is not None:
        file, call = found
        raise UserError(
            f"{file} calls {call}, which connects functions with each other: at AWS they cannot reach each other.",
            "Exchange gradients with mlcd.sync, or use one function. Functions of this computer would not show it: "
            f"they have no networks of their own ({why}).",
        )


def connecting_call(run: str, workdir: str) -> tuple[Path, str] | None:
    """A call that connects nodes, in a program that knows no other way."""
    program = sources(run, workdir)
    if any(_exchanges(source) for source in program):
        return None
    found = ((source.path, call.name) for source in program for call in source.calls if _connects(call))
    return next(found, None)


def _connects(call: Call) -> bool:
    """Whether it connects nodes with each other."""
    parts = call.name.split(".")
    last = parts[-1]
    if last in _STRATEGIES or call.name in _CALLS:
        return True
    creates = parts[-2:-1] in (["kv"], ["kvstore"]) and last == "create"
    stores = [text for keyword, text in call.texts if creates or keyword == "kvstore"]  # of MXNet
    return any(store.startswith("dist_") for store in stores)


def _exchanges(source: Source) -> bool:
    """Whether it uses a parameter store, by mlcd.sync."""
    used = (*source.imports, *(call.name for call in source.calls))
    return any(name == "mlcd.sync" or name.startswith("mlcd.sync.") for name in used)
