"""Options that several commands share, and what they mean to the client."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from mlcd.core.datasets import BUILTIN
from mlcd.errors import UserError

_CHANGES = "Changes to the job file"
_WHERE = "Where"
_JOB_KEYS = {  # option → key of the job file
    **{name: name for name in ("goal", "deadline", "budget", "batch_size")},
    "data": "file_mounts.data",
    "nodes": "num_nodes",
    "search": "search.strategy",
    "max_probes": "search.max_probes",
    "seed": "search.seed",
}


def _option(text: str, panel: str = _CHANGES, **limits: Any) -> Any:
    return typer.Option(help=text, rich_help_panel=panel, **limits)


JsonFlag = Annotated[bool, typer.Option("--json", help="Write JSON and nothing else.")]
JobFile = Annotated[Path, typer.Argument(metavar="JOB.yaml", help="The job file.", show_default=False)]
JobId = Annotated[str, typer.Argument(metavar="JOB", help="The job's id.", show_default=False)]
YesFlag = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
Cloud = Annotated[str | None, _option("The cloud to use: local, replay, …", _WHERE)]
Trace = Annotated[Path | None, _option("Replay a recorded trace instead of renting machines.", _WHERE)]
Workload = Annotated[str | None, _option("The trace's workload to replay.", _WHERE)]
Env = Annotated[
    list[str] | None,
    typer.Option("--env", metavar="K[=V]", help="Set a variable; without =V, as it is here.", rich_help_panel=_CHANGES),
]
Secret = Annotated[
    list[str] | None,
    typer.Option("--secret", metavar="K", help="Pass this variable as a secret.", rich_help_panel=_CHANGES),
]


@dataclass(frozen=True)
class Place:
    """A cloud by name, with its options."""

    cloud: str | None
    options: dict[str, str]


@dataclass(frozen=True)
class JobOptions:
    """Options that replace what a job file says, and say where it runs."""

    cloud: Cloud = None
    trace: Trace = None
    workload: Workload = None
    noise: Annotated[float | None, _option("Measurement noise of the replay, as a share: 0.05.", _WHERE, min=0.0)] = (
        None
    )
    env: Env = None
    secret: Secret = None
    goal: Annotated[str | None, _option("fastest, cheapest or balanced.")] = None
    deadline: Annotated[str | None, _option("6h, or 2026-11-17T12:00+01:00.")] = None
    budget: Annotated[str | None, _option("Total in US dollars.")] = None
    data: Annotated[str | None, _option("What the program finds in data/: builtin:digits, a path or s3://….")] = None
    nodes: Annotated[str | None, _option("4, or 1..8.")] = None
    batch_size: Annotated[str | None, _option("64, or 64..1024.")] = None
    search: Annotated[str | None, _option("The strategy: heterbo, random, …")] = None
    max_probes: Annotated[int | None, _option("Most deployments to try.", min=1)] = None
    seed: Annotated[int | None, _option("Random seed of the search.")] = None

    @property
    def place(self) -> Place:
        """The cloud to use."""
        return place(self.cloud, self.trace, self.workload, self.noise)

    @property
    def overrides(self) -> dict[str, Any]:
        """Keys of the job file with their new values."""
        values = {key: getattr(self, name) for name, key in _JOB_KEYS.items()}
        if self.data is not None:
            values[_JOB_KEYS["data"]] = _seen_from_here(self.data)
        return {key: value for key, value in values.items() if value is not None}


def _seen_from_here(source: str) -> str:
    """Data as the command line means it: a path from this folder, and not from that of the job file."""
    return source if source.startswith(BUILTIN) or "://" in source else str(Path(source).expanduser().absolute())


def with_job_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with each field of its parameter `options: JobOptions` as an option of its own."""
    names = [field.name for field in fields(JobOptions)]

    @wraps(command)
    def expanded(**given: Any) -> None:
        options = JobOptions(**{name: given.pop(name) for name in names})
        command(**given, options=options)

    hints = {
        **get_type_hints(command, include_extras=True),
        **get_type_hints(JobOptions, include_extras=True),
    }
    parameters: list[tuple[str, Any]] = []
    for parameter in signature(command).parameters.values():
        grouped = parameter.name == "options"
        parameters += [(name, None) for name in names] if grouped else [(parameter.name, parameter.default)]
    expanded.__annotations__ = {name: hints[name] for name, _ in parameters}
    expanded.__signature__ = Signature(  # type: ignore[attr-defined]  # what inspect looks for
        [
            Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=hints[name])
            for name, default in parameters
        ]
    )
    return expanded


def place(cloud: str | None, trace: Path | None, workload: str | None, noise: float | None) -> Place:
    """The cloud that these options mean; a trace means the replayed one."""
    replayed = {"workload": workload, "noise": None if noise is None else f"{noise:g}"}
    given = {key: value for key, value in replayed.items() if value is not None}
    if trace is None:
        if given:
            raise UserError(f"--{next(iter(given))} means a replay.", "Name its recordings with --trace FILE.")
        return Place(cloud, {})
    if cloud not in (None, "replay"):
        raise UserError(f"--trace replays recordings, and --cloud {cloud} does not.", "Leave one of them out.")
    if not trace.exists():
        raise UserError(f"There is no trace {trace}.")
    return Place("replay", {"trace": str(trace.resolve()), **given})


def variables(given: list[str] | None, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Names with values from 'K=V', or from here where only K is given."""
    found = {}
    for one in given or ():
        name, equals, value = one.partition("=")
        found[name] = value if equals else _here(name, environ)
    return found


def secrets(given: list[str] | None, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Names with values from the environment; a command line can be read by everyone on the machine."""
    for one in given or ():
        name, equals, _ = one.partition("=")
        if equals:
            hint = f"Write --secret {name}, and have its value in the environment variable {name}."
            raise UserError(f"The value of secret '{name}' does not belong on the command line.", hint)
    return {name: _here(name, environ) for name in given or ()}


def _here(name: str, environ: Mapping[str, str]) -> str:
    if name not in environ:
        raise UserError(f"The environment has no variable '{name}'.", f"Set it before: export {name}=…")
    return environ[name]
