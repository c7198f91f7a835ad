"""A job that came over the wire. No path, variable or file of this computer is taken from it:

- the program's folder is an upload, or a folder within it; mounted files are `upload:ID/path` or `builtin:NAME`;
- variables without a value come from what was sent along and from the sender's own stored secrets;
- a replay's trace is an upload too, and where it keeps its state is ours to say.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from mlcd.core.datasets import BUILTIN
from mlcd.core.job import Job
from mlcd.core.jobfile import LoadedJob
from mlcd.core.notices import Channel
from mlcd.errors import InvalidJobError, UserError
from mlcd.notify.addresses import refuse_plainly_private
from mlcd.web.auth import Actor
from mlcd.web.clouds import refuse_cloud, refuse_options
from mlcd.web.site import Site

UPLOAD = "upload:"
_PATHS = frozenset({"workdir", "file_mounts"})  # keys of a job that do
_DEEPEST = 30


class Body(BaseModel):
    """What is sent in a request: no unknown keys, and no text that a database cannot keep."""

    model_config = ConfigDict(extra="forbid", str_max_length=1_000_000)

    @model_validator(mode="before")
    @classmethod
    def _sound(cls, data: Any) -> Any:
        _refuse_unsound(data, 0)
        return data


class Submission(Body):
    """A job with what belongs to it."""

    job: dict[str, Any] = Field(description="The keys of a job file.")
    code: str | None = Field(None, description="The upload with the program; `workdir` is a folder within it.")
    envs: dict[str, str] = Field(default_factory=dict)
    secrets: dict[str, str] = Field(default_factory=dict, description="Values; stored ones need not be sent.")
    overrides: dict[str, Any] = Field(default_factory=dict, description="Keys of the job, with dots.")
    cloud: str | None = None
    cloud_options: dict[str, str] = Field(default_factory=dict)


class NewJob(Submission):
    """A job to be submitted."""

    start: bool = Field(False, description="Begin the search at once.")
    confirm: bool = Field(False, description="Accept the plan ahead: train without asking.")


def load(site: Site, who: Actor, sent: Submission) -> LoadedJob:
    """The job, checked as a file is."""
    root = None if sent.code is None else site.uploads.folder(_mine(site, who, sent.code))
    keys = {key: value for key, value in sent.job.items() if key not in _PATHS}
    for key in sent.overrides:
        if key.partition(".")[0] in _PATHS:
            raise InvalidJobError(f"overrides: '{key[:40]}' must be said in the job itself.")
    if (workdir := _workdir(root, sent.job.get("workdir"))) is not None:
        keys["workdir"] = str(workdir)
    if mounts := sent.job.get("file_mounts"):
        keys["file_mounts"] = _mounts(site, who, mounts)
    loaded = site.client.load(
        keys,
        envs=sent.envs,
        secrets={**_stored(site, who, sent), **sent.secrets},
        overrides=sent.overrides,
        environ={},
        base=Path("/nonexistent"),
    )
    refuse_cloud(site, who, sent.cloud or loaded.job.cloud)
    _refuse_private_webhooks(site, loaded.job)
    return loaded


def cloud_options(site: Site, who: Actor, cloud: str, given: Mapping[str, str]) -> dict[str, str]:
    """The options that they may give this cloud, with uploads in the place of paths."""
    refuse_options(who, cloud, given)
    options = dict(given)
    if "trace" in options:
        options["trace"] = str(upload_path(site, who, options["trace"]))
    return options


def upload_path(site: Site, who: Actor, reference: str) -> Path:
    """The place that 'upload:ID/path' names; one of somebody else's uploads is not found."""
    if not reference.startswith(UPLOAD):
        raise UserError(f"'{reference[:80]}' is not a path on this server.", "Send the file and write upload:ID/path.")
    upload_id, _, path = reference.removeprefix(UPLOAD).partition("/")
    return _inside(site.uploads.folder(_mine(site, who, upload_id)), path)


def _mine(site: Site, who: Actor, upload_id: str) -> str:
    """Of uploads that are used now; nobody takes them away before the job is made."""
    owner = None if who.is_admin else who.name
    return site.service.uploads.use(upload_id, owner, time.time()).id


def _workdir(root: Path | None, words: Any) -> Path | None:
    if root is None:
        if words not in (None, "", "."):
            raise InvalidJobError(
                "workdir: the server does not see your folders.",
                "Send the code as an upload, and name it in `code`.",
            )
        return None
    if not isinstance(words, str | None):
        raise InvalidJobError("workdir: it is not a text.")
    return _inside(root, words or "")


def _mounts(site: Site, who: Actor, mounts: Any) -> dict[str, Any]:
    if not isinstance(mounts, dict):
        raise InvalidJobError("file_mounts: it is not a mapping of paths.")
    return {where: _mount(site, who, what) for where, what in mounts.items()}


def _mount(site: Site, who: Actor, what: Any) -> Any:
    source = what.get("source") if isinstance(what, dict) else what
    if isinstance(source, str) and "://" not in source and not source.startswith(BUILTIN):
        return str(upload_path(site, who, source))
    if isinstance(source, str) and source.startswith("s3://") and site.serve.accounts and not who.is_admin:
        raise UserError(
            "file_mounts: buckets are read with the server's own credentials, which only admins may use.",
            "Upload the data, or fetch it in `setup` with a secret of your own.",
        )
    return what


def _inside(root: Path, path: str) -> Path:
    """A path within a folder, whatever it is made of."""
    if "\0" in path or "$" in path:
        raise InvalidJobError(f"'{path[:80]}' is not a path within the upload.")
    place = (root / path.lstrip("/")).resolve() if not path.startswith("~") else Path("/")
    if not place.is_relative_to(root.resolve()):
        raise InvalidJobError(f"'{path[:80]}' leads out of the upload.")
    return place


def _stored(site: Site, who: Actor, sent: Submission) -> dict[str, str]:
    """The sender's stored values of the secrets that the job names and does not bring along."""
    named = sent.job.get("secrets")
    if isinstance(named, dict):
        named = [name for name, value in named.items() if value is None]
    names = {name for name in named if isinstance(name, str)} if isinstance(named, list) else set()
    sealed = site.service.sealed(who.name) if names else {}
    return {name: site.vault.open(sealed[name]) for name in (names - sent.secrets.keys()) & sealed.keys()}


def _refuse_private_webhooks(site: Site, job: Job) -> None:
    """Said at once where it can be seen; addresses behind names and secrets are judged when they are asked."""
    if not site.serve.accounts or site.client.settings.notify.allow_private:
        return
    for recipient in job.on_event:
        if recipient.channel is not Channel.EMAIL and not recipient.secret_names:
            refuse_plainly_private(recipient.address)


def _refuse_unsound(data: Any, depth: int) -> None:
    if depth > _DEEPEST:
        raise ValueError("it is nested too deeply")
    if isinstance(data, str) and ("\0" in data or any("\ud800" <= letter <= "\udfff" for letter in data)):
        raise ValueError("a text holds a NUL character or half a character")
    if isinstance(data, dict):
        for key, value in data.items():
            _refuse_unsound(key, depth + 1)
            _refuse_unsound(value, depth + 1)
    elif isinstance(data, list):
        for value in data:
            _refuse_unsound(value, depth + 1)
