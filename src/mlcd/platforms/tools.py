"""Whether the programs that a platform starts beside the user's own are there."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence

from mlcd import registry
from mlcd.core.job import Job
from mlcd.errors import InvalidJobError
from mlcd.platforms.base import Tool


def tools_of(job: Job) -> tuple[Tool, ...]:
    """What has to be on every node before the job's program starts, unless `setup` brings it."""
    tools: tuple[Tool, ...] = getattr(registry.load("platforms", job.platform), "tools", ())
    return () if job.setup.strip() else tools


def refuse_missing_tools(job: Job, environ: Mapping[str, str]) -> None:
    """Raise where programs that start with this environment on this computer would not find one."""
    env = {**environ, **job.envs}
    missing = [tool for tool in tools_of(job) if not _is_here(tool, env)]
    if missing:
        raise InvalidJobError(
            f"The platform '{job.platform}' needs {_names(missing)}, which this computer does not have.",
            f"Install: {_install(missing)}. Or put that into the job's `setup`.",
            "platform",
        )


def tools_elsewhere(job: Job) -> tuple[str, ...]:
    """What to know of a job on machines that nobody can look at before they are rented."""
    tools = tools_of(job)
    unless = f"if their image has none, add `setup: {_install(tools)}`"
    return (f"platform: {job.platform} needs {_names(tools)} on every machine; {unless}.",) if tools else ()


def _is_here(tool: Tool, env: Mapping[str, str]) -> bool:
    return bool(tool.variable and env.get(tool.variable)) or shutil.which(tool.name, path=env.get("PATH")) is not None


def _names(tools: Sequence[Tool]) -> str:
    return " and ".join(tool.name for tool in tools)


def _install(tools: Sequence[Tool]) -> str:
    return " && ".join(tool.install for tool in tools)
