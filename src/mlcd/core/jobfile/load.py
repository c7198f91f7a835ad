"""Job files: a SkyPilot task file with more keys becomes a Job.

    name: digits                  # as in SkyPilot: name, workdir, setup, run, num_nodes, resources, envs, secrets, …
    workdir: .                    # seen from the file's folder
    run: python train.py
    num_nodes: 1..8               # ours: a range,
    work: {epochs: 10, dataset_size: 60000}
    batch_size: 64..1024
    goal: cheapest                # fastest, cheapest or balanced
    deadline: 6h                  # or 2026-11-17T12:00+01:00
    budget: $100

All that is wrong with a file is said at once, each with its line and the nearest valid key.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from mlcd.core.job import Job
from mlcd.core.jobfile.build import build_job
from mlcd.core.jobfile.context import Surroundings
from mlcd.core.jobfile.errors import invalid_job, problems_of
from mlcd.core.jobfile.keys import SHORT_FORMS, UNUSED, UNUSED_RESOURCES, JobKeys
from mlcd.core.jobfile.yaml import Document, Problem, read_yaml
from mlcd.errors import InvalidJobError

_LARGEST_FILE = 1_000_000  # bytes


@dataclass(frozen=True)
class LoadedJob:
    """A job, the values of its secrets (which no noun may hold), and what the user should know of the file."""

    job: Job
    secrets: dict[str, str]
    notices: tuple[str, ...] = ()
    source: str = ""  # the file
    lines: Mapping[str, int] = field(default_factory=dict)  # key with dots → where in the file it stands

    def placed(self, error: InvalidJobError) -> InvalidJobError:
        """The error with the file, the line and the key to blame."""
        if not self.source or not error.key:
            return error
        parts = error.key.split(".")
        above = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
        line = next((self.lines[key] for key in above if key in self.lines), None)
        where = self.source if line is None else f"{self.source}, line {line}"
        return InvalidJobError(f"{where}: {error.key}: {error.message}", error.hint, error.key)


def load_job(
    path: Path,
    *,
    envs: Mapping[str, str] = {},
    secrets: Mapping[str, str] = {},
    environ: Mapping[str, str] = {},
    overrides: Mapping[str, Any] = {},
    defaults: Mapping[str, Any] = {},
    now: float | None = None,
) -> LoadedJob:
    """The job in a file.

    envs and secrets add to the file's own; variables without a value are looked up in environ. Overrides win
    over the file and defaults yield to it; their keys are the file's, with dots: 'search.max_probes'.
    """
    around = _surroundings(path.absolute().parent, envs, secrets, environ, now)
    document = _named(_read_file(path), path.stem)
    return _job(document, str(path), around, overrides, defaults)


def parse_job(
    text: str,
    source: str = "job.yaml",
    base: Path = Path(),
    *,
    envs: Mapping[str, str] = {},
    secrets: Mapping[str, str] = {},
    environ: Mapping[str, str] = {},
    overrides: Mapping[str, Any] = {},
    defaults: Mapping[str, Any] = {},
    now: float | None = None,
) -> LoadedJob:
    """The job in a text; paths are seen from base."""
    around = _surroundings(base.absolute(), envs, secrets, environ, now)
    return _job(_named(read_yaml(text), Path(source).stem), source, around, overrides, defaults)


def job_from_dict(
    mapping: Mapping[str, Any],
    source: str = "job",
    base: Path = Path(),
    *,
    envs: Mapping[str, str] = {},
    secrets: Mapping[str, str] = {},
    environ: Mapping[str, str] = {},
    overrides: Mapping[str, Any] = {},
    defaults: Mapping[str, Any] = {},
    now: float | None = None,
) -> LoadedJob:
    """The job in a mapping with the keys of a job file."""
    around = _surroundings(base.absolute(), envs, secrets, environ, now)
    document = _named(Document({str(key): value for key, value in mapping.items()}), source)
    return _job(document, source, around, overrides, defaults)


def _surroundings(
    base: Path,
    envs: Mapping[str, str],
    secrets: Mapping[str, str],
    environ: Mapping[str, str],
    now: float | None,
) -> Surroundings:
    return Surroundings(base, time.time() if now is None else now, envs, secrets, environ)


def _read_file(path: Path) -> Document:
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST_FILE + 1)
    except FileNotFoundError as error:
        raise InvalidJobError(f"There is no job file {path}.") from error
    except (OSError, ValueError) as error:
        raise InvalidJobError(
            f"{path} cannot be read: {getattr(error, 'strerror', None) or error}."
        ) from error
    if len(content) > _LARGEST_FILE or b"\0" in content:
        return Document(problems=[Problem("this is not a job file, but something larger or binary")])
    try:
        return read_yaml(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        return Document(problems=[Problem("this is not text in UTF-8", line=line)])


def _named(document: Document, name: str) -> Document:
    if document.data and not document.data.get("name"):
        document.data["name"] = name[:100].strip() or "job"
    return document


def _job(
    document: Document,
    source: str,
    around: Surroundings,
    overrides: Mapping[str, Any],
    defaults: Mapping[str, Any],
) -> LoadedJob:
    if not document.data and document.problems:
        raise invalid_job(source, document, document.problems)
    given = _merge(document, overrides, defaults)
    around = replace(around, envs={**_texts(document.data.get("envs")), **around.envs})
    around.notices.extend(_take_unused(document.data))
    try:
        keys = JobKeys.model_validate(document.data, context=around)
    except ValidationError as error:
        problems = [*document.problems, *problems_of(error)]
        raise invalid_job(source, document, problems, given) from None  # its own text may hold a secret
    except UnicodeEncodeError:  # in a mapping of Python; a file was looked at before
        raise invalid_job(source, document, [Problem("a text holds half a character")]) from None
    if document.problems:
        raise invalid_job(source, document, document.problems, given)
    job, values = build_job(keys, around)
    return LoadedJob(job, values, tuple(around.notices), source, _lines(document, given))


def _lines(document: Document, given: set[str]) -> dict[str, int]:
    """The line of each key that comes from the file."""
    return {
        ".".join(str(part) for part in path): line
        for path, line in document.lines.items()
        if path and path[0] not in given
    }


def _merge(document: Document, overrides: Mapping[str, Any], defaults: Mapping[str, Any]) -> set[str]:
    """Put what was given beside the file into it; returns the top keys that no longer come from the file."""
    for key, value in defaults.items():
        if value is not None:
            document.data.setdefault(key, value)
    chosen = {key: value for key, value in overrides.items() if value is not None}
    for key, value in chosen.items():
        top, _, inner = key.partition(".")
        document.data[top] = _with_inner(top, document.data.get(top), inner, value) if inner else value
    return {key.partition(".")[0] for key in chosen}


def _with_inner(top: str, old: Any, inner: str, value: Any) -> dict[str, Any]:
    if not isinstance(old, dict):
        old = {} if old is None or top not in SHORT_FORMS else {SHORT_FORMS[top]: old}
    return {**old, inner: value}


def _texts(envs: Any) -> dict[str, str]:
    return (
        {name: value for name, value in envs.items() if isinstance(value, str)}
        if isinstance(envs, dict)
        else {}
    )


def _take_unused(data: dict[str, Any]) -> Iterable[str]:
    """Take the keys that mlcd does not use out of the data, with a notice for each."""
    taken = sorted(UNUSED & data.keys())
    for key in taken:
        del data[key]
    resources = data.get("resources")
    if isinstance(resources, dict):
        data["resources"], unused = _take_unused_resources(resources)
        taken += [f"resources.{key}" for key in sorted(unused)]
    return [f"{key} is not used by mlcd." for key in taken]


def _take_unused_resources(resources: dict[str, Any]) -> tuple[dict[str, Any], set[str]]:
    unused = UNUSED_RESOURCES & resources.keys()
    kept = {key: value for key, value in resources.items() if key not in UNUSED_RESOURCES}
    for key in ("any_of", "ordered"):
        if isinstance(kept.get(key), list):
            kept[key], inner = _take_unused_alternatives(kept[key])
            unused |= inner
    return kept, set(unused)


def _take_unused_alternatives(alternatives: list[Any]) -> tuple[list[Any], set[str]]:
    found = [
        _take_unused_resources(each) if isinstance(each, dict) else (each, set[str]())
        for each in alternatives
    ]
    return [kept for kept, _ in found], {key for _, unused in found for key in unused}
