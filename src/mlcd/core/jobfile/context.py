"""The values of a job file that depend on what is around it: its folder, the time, and what the caller gave."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from string import Template
from typing import Any

from pydantic import ValidationInfo

from mlcd.core.jobfile import events
from mlcd.core.jobfile import values as read
from mlcd.core.notices import Recipient

_BUCKET = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/.*)?")


@dataclass(frozen=True)
class Surroundings:
    """What a job file is read against: its folder, the time, and the values given beside it."""

    base: Path
    now: float
    envs: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    environ: Mapping[str, str] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)

    def path(self, words: str) -> Path:
        """An absolute path, with ${VARIABLES} filled in."""
        try:
            return self.base / Path(self.filled(words)).expanduser()
        except RuntimeError as error:
            raise ValueError(f"{read.shown(words)} names no home folder") from error

    def filled(self, words: str) -> str:
        """The words with the variables of 'envs' filled in."""
        return Template(words).safe_substitute(self.envs)


def read_workdir(value: Any, info: ValidationInfo) -> str:
    """The working directory as an absolute path; it must be there."""
    if isinstance(value, dict):
        raise ValueError(
            "a repository is not fetched by mlcd; clone it and give its folder, or clone it in 'setup'"
        )
    folder = _around(info).path(read.filled_text(value))
    if not _on_disk(folder):
        raise ValueError(f"there is no folder {folder}")
    if not folder.is_dir():
        raise ValueError(f"{folder} is not a folder")
    return str(folder.resolve())


def read_deadline(value: Any, info: ValidationInfo) -> datetime | float:
    """The deadline; it must not have passed."""
    deadline = read.moment_or_seconds(value)
    if isinstance(deadline, datetime) and deadline.timestamp() <= _around(info).now:
        raise ValueError(f"{read.shown(value)} is in the past")
    return deadline


def read_recipients(value: Any, info: ValidationInfo) -> tuple[Recipient, ...]:
    """Who is told; the secrets that this takes must be among the job's."""
    found = events.recipients(value)
    known = info.data.get("secrets") or _around(info).secrets
    for name in (name for one in found for name in one.secret_names):
        if name not in known:
            raise ValueError(f"it needs the secret '{name}', which 'secrets' does not name")
    return found


def read_mounts(value: Any, info: ValidationInfo) -> dict[str, str]:
    """Where → absolute path here, or s3://bucket/path; other buckets are left out with a notice."""
    if not isinstance(value, dict):
        raise ValueError(f"{read.shown(value)} is not a mapping of paths")
    mounts = read.each_entry(value, lambda where, what: _mount(where, what, info))
    return {_around(info).filled(where): path for where, path in mounts.items() if path is not None}


def _mount(where: str, what: Any, info: ValidationInfo) -> str | None:
    source = what.get("source") if isinstance(what, dict) else what
    if isinstance(source, str) and source.startswith("s3://") and _copied(what):
        return _bucket(_around(info).filled(read.filled_text(source)))
    if not isinstance(source, str) or "://" in source:
        if not isinstance(what, dict | str):
            raise ValueError(f"{read.shown(what)} is neither a path nor a bucket")
        _around(info).notices.append(
            f"file_mounts: '{where}' is a bucket, which mlcd does not mount; "
            "s3:// with 'mode: COPY' is fetched, others fetch in 'setup'."
        )
        return None
    path = _around(info).path(read.filled_text(source))
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


def read_envs(value: Any, info: ValidationInfo) -> dict[str, str]:
    """The environment variables with their values."""
    around = _around(info)
    return _variables(value, around.envs, around.environ)


def read_secrets(value: Any, info: ValidationInfo) -> dict[str, str]:
    """The secrets with their values: a mapping, or a list of names to look up."""
    around = _around(info)
    named = dict.fromkeys(read.texts(value)) if isinstance(value, list) else value
    return _variables(named, around.secrets, around.environ)


def _variables(value: Any, given: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """The variables with their values; what has none in the file comes from the caller or the environment."""
    if not isinstance(value, dict):
        raise ValueError(
            f"{'a list' if isinstance(value, list) else 'this'} is not a mapping of names to values"
        )
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


def read_outputs(value: Any, info: ValidationInfo) -> tuple[str, ...]:
    """Patterns of the files that make up the model."""
    if isinstance(value, dict):  # SkyPilot's: a place and its size, for its planner
        _around(info).notices.append("outputs as a mapping is not used by mlcd.")
        return ()
    return read.inside_paths(value)


def _around(info: ValidationInfo) -> Surroundings:
    around = info.context
    assert isinstance(around, Surroundings)
    return around
