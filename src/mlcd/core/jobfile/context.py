"""What a job file is read in, and the values that depend on it: the file's folder, the time, and what the caller gave."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from string import Template
from typing import Any

import mlcd.core.jobfile.events as events
import mlcd.core.jobfile.values as read
from mlcd.core.datasets import BUILTIN, data_set
from mlcd.core.notices import Recipient

_BUCKET = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/.*)?")


@dataclass(frozen=True)
class Context:
    """The folder, the time and the values given beside a file; notices and secrets are gathered in it."""

    base: Path
    now: float
    envs: Mapping[str, str] = field(default_factory=dict)
    given_secrets: Mapping[str, str] = field(default_factory=dict)
    environ: Mapping[str, str] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)
    secrets: dict[str, str] = field(default_factory=dict)  # their values, which no noun may hold

    def path(self, words: str) -> Path:
        """An absolute path, with ${VARIABLES} filled in."""
        try:
            return self.base / Path(self.filled(words)).expanduser()
        except RuntimeError as error:
            raise ValueError(f"{read.shown(words)} names no home folder") from error

    def filled(self, words: str) -> str:
        """The words with the variables of 'envs' filled in."""
        return Template(words).safe_substitute(self.envs)


def workdir(value: Any, context: Context) -> str:
    """The working directory as an absolute path; it must be there."""
    if isinstance(value, dict):
        raise ValueError("a repository is not fetched by mlcd; clone it and give its folder, or clone it in 'setup'")
    folder = context.path(read.filled_text(value))
    if not _on_disk(folder):
        raise ValueError(f"there is no folder {folder}")
    if not folder.is_dir():
        raise ValueError(f"{folder} is not a folder")
    return str(folder.resolve())


def deadline(value: Any, context: Context) -> tuple[float, float | None]:
    """Seconds to the deadline and, of a clock time, when that is; it must not have passed."""
    found = read.moment_or_seconds(value)
    if not isinstance(found, datetime):
        return found, None
    if found.timestamp() <= context.now:
        raise ValueError(f"{read.shown(value)} is in the past")
    return found.timestamp() - context.now, found.timestamp()


def recipients(value: Any, context: Context) -> tuple[Recipient, ...]:
    """Who is notified; the secrets that this takes must be among the job's."""
    found = events.recipients(value)
    for name in (name for one in found for name in one.secret_names):
        if name not in {**context.secrets, **context.given_secrets}:
            raise ValueError(f"it needs the secret '{name}', which 'secrets' does not name")
    return found


def mounts(value: Any, context: Context) -> dict[str, str]:
    """Where → absolute path here, builtin:name or s3://bucket/path; other buckets are left out with a notice."""
    if not isinstance(value, dict):
        raise ValueError(f"{read.shown(value)} is not a mapping of paths")
    found = read.each_entry(value, lambda where, what: _mount(where, what, context))
    return {context.filled(where): path for where, path in found.items() if path is not None}


def _mount(where: str, what: Any, context: Context) -> str | None:
    source = what.get("source") if isinstance(what, dict) else what
    if isinstance(source, str) and source.startswith("s3://") and _copied(what):
        return _bucket(context.filled(read.filled_text(source)))
    if not isinstance(source, str) or "://" in source:
        if not isinstance(what, dict | str):
            raise ValueError(f"{read.shown(what)} is neither a path nor a bucket")
        context.notices.append(
            f"file_mounts: '{where}' is a bucket, which mlcd does not mount; "
            "s3:// with 'mode: COPY' is fetched, others fetch in 'setup'."
        )
        return None
    if source.startswith(BUILTIN):
        return BUILTIN + data_set(context.filled(source.removeprefix(BUILTIN))).name
    path = context.path(read.filled_text(source))
    if not _on_disk(path):
        raise ValueError(f"there is nothing at {path}")
    return str(path.resolve())


def _copied(what: Any) -> bool:
    """Whether a bucket is to be copied, as SkyPilot means it: a plain address is, a storage is mounted unless it says so."""
    return isinstance(what, str) or (isinstance(what, dict) and str(what.get("mode", "")).upper() == "COPY")


def _bucket(source: str) -> str:
    """It is listed and fetched when a task begins; here only its form is checked."""
    if not _BUCKET.fullmatch(source):
        raise ValueError(f"{read.shown(source)} is not of the form s3://bucket/path")
    return source


def _on_disk(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a name too long to exist, or a folder that may not be looked into
        return False


def envs(value: Any, context: Context) -> dict[str, str]:
    """The environment variables with their values."""
    return _variables(value, context.envs, context.environ)


def secrets(value: Any, context: Context) -> tuple[str, ...]:
    """The names of the secrets, from a mapping or a list of names to look up; the values go into the context."""
    named = dict.fromkeys(read.texts(value)) if isinstance(value, list) else value
    context.secrets.update(_variables(named, context.given_secrets, context.environ))
    return tuple(context.secrets)


def _variables(value: Any, given: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """The variables with their values; what has none in the file comes from the caller or the environment."""
    if not isinstance(value, dict):
        raise ValueError(f"{'a list' if isinstance(value, list) else 'this'} is not a mapping of names to values")
    others = {**environ, **given}

    def variable(name: str, said: Any) -> str:
        read.env_name(name)
        found = given.get(name, others.get(name) if said is None else said)
        if found is None:
            raise ValueError("it has no value; give it with the command or in the environment")
        if not isinstance(found, str | int | float):
            raise ValueError("it is not a text")  # without the value: it may be a secret
        if "\0" in str(found):
            raise ValueError("it holds a NUL character")
        return str(found)

    more = {name: str(each) for name, each in given.items() if name not in value}
    return read.each_entry(value, variable) | more


def outputs(value: Any, context: Context) -> tuple[str, ...]:
    """Patterns of the files that make up the model."""
    if isinstance(value, dict):  # SkyPilot's: a place and its size, for its planner
        context.notices.append("outputs as a mapping is not used by mlcd.")
        return ()
    return read.inside_paths(value)


def infra(value: Any, context: Context) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Cloud and region, from 'aws/us-east-1'."""
    cloud, region, zone, *_ = [*read.filled_text(value).split("/"), "", "", ""]
    if zone:
        context.notices.append("The zone in resources.infra is not used by mlcd.")
    return read.clouds(cloud or "*"), read.names(region or "*")
