"""Files, texts and mappings to jobs: an error names all that is wrong at once, each with its line."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict, Unpack

from mlcd.core.job import Job
from mlcd.core.jobfile.context import Context
from mlcd.core.jobfile.errors import invalid_job
from mlcd.core.jobfile.keys import section_of
from mlcd.core.jobfile.read import read_job
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


class LoadOptions(TypedDict, total=False):
    """What is given beside a file. The keys of overrides and defaults are the file's, with dots: 'search.seed'."""

    envs: Mapping[str, str]  # add to the file's own
    secrets: Mapping[str, str]  # likewise
    environ: Mapping[str, str]  # where variables without a value are looked up
    overrides: Mapping[str, Any]  # win over the file
    defaults: Mapping[str, Any]  # yield to it
    now: float


def load(job: str | Path | Mapping[str, Any] | Job, base: Path = Path(), **beside: Unpack[LoadOptions]) -> LoadedJob:
    """A job in whatever form: a file, a mapping with the same keys, or a Job."""
    if isinstance(job, Job):
        return LoadedJob(job, dict(beside.get("secrets", {})))
    if isinstance(job, Mapping):
        return job_from_dict(job, base=base, **beside)
    return load_job(Path(job), **beside)


def load_job(path: Path, **beside: Unpack[LoadOptions]) -> LoadedJob:
    """The job in a file; its paths are seen from the file's folder."""
    return _load(_read_file(path), path.stem, str(path), path.parent, beside)


def parse_job(text: str, source: str = "job.yaml", base: Path = Path(), **beside: Unpack[LoadOptions]) -> LoadedJob:
    """The job in a text; paths are seen from base."""
    return _load(read_yaml(text), Path(source).stem, source, base, beside)


def job_from_dict(
    mapping: Mapping[str, Any], source: str = "job", base: Path = Path(), **beside: Unpack[LoadOptions]
) -> LoadedJob:
    """The job in a mapping with the keys of a job file."""
    return _load(Document({str(key): value for key, value in mapping.items()}), source, source, base, beside)


def _read_file(path: Path) -> Document:
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST_FILE + 1)
    except FileNotFoundError as error:
        raise InvalidJobError(f"There is no job file {path}.") from error
    except (OSError, ValueError) as error:
        raise InvalidJobError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.") from error
    if len(content) > _LARGEST_FILE or b"\0" in content:
        return Document(problems=[Problem("this is not a job file, but something larger or binary")])
    try:
        return read_yaml(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        return Document(problems=[Problem("this is not text in UTF-8", line=line)])


def _load(document: Document, name: str, source: str, base: Path, beside: LoadOptions) -> LoadedJob:
    if not document.data and document.problems:
        raise invalid_job(source, document, document.problems)
    if document.data and not document.data.get("name"):
        document.data["name"] = name[:100].strip() or "job"
    given = _merge(document.data, beside)
    context = _context(document.data, base.absolute(), beside)
    job, problems = read_job(document.data, context)
    problems = [*document.problems, *problems]
    if job is None or problems:
        raise invalid_job(source, document, problems, given)
    return LoadedJob(job, context.secrets, tuple(dict.fromkeys(context.notices)), source, _lines(document, given))


def _context(data: dict[str, Any], base: Path, beside: LoadOptions) -> Context:
    """What the data is read in; variables given beside it are read as if it named them."""
    envs, secrets = beside.get("envs", {}), beside.get("secrets", {})
    for key, variables in (("envs", envs), ("secrets", secrets)):
        if variables and not data.get(key):
            data[key] = {}
    own = data.get("envs")
    texts = {name: each for name, each in own.items() if isinstance(each, str)} if isinstance(own, dict) else {}
    now = beside.get("now")
    return Context(base, time.time() if now is None else now, {**texts, **envs}, secrets, beside.get("environ", {}))


def _lines(document: Document, given: set[str]) -> dict[str, int]:
    """The line of each key that comes from the file."""
    return {
        ".".join(str(part) for part in path): line
        for path, line in document.lines.items()
        if path and path[0] not in given
    }


def _merge(data: dict[str, Any], beside: LoadOptions) -> set[str]:
    """Put what was given beside the file into its data; returns the top keys that no longer come from the file."""
    for key, value in beside.get("defaults", {}).items():
        if value is not None:
            data.setdefault(key, value)
    chosen = {key: value for key, value in beside.get("overrides", {}).items() if value is not None}
    for key, value in chosen.items():
        top, _, inner = key.partition(".")
        data[top] = {**_long(top, data.get(top)), inner: value} if inner else value
    return {key.partition(".")[0] for key in chosen}


def _long(key: str, value: Any) -> dict[str, Any]:
    """A value that has a short form, in its long one."""
    entry = section_of(Job).known.get(key)
    short = entry.section.short if entry and entry.section else None
    if isinstance(value, dict):
        return value
    return {short.name: value} if short and value is not None else {}
