"""What is wrong with a job file, said with the line, the key and the nearest valid key."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, ValidationError

from mlcd.core.jobfile.keys import UNUSED, UNUSED_RESOURCES, JobKeys, Keys, MachineKeys
from mlcd.core.jobfile.values import EntryErrors
from mlcd.core.jobfile.yaml import Document, Problem
from mlcd.errors import InvalidJobError, did_you_mean


def invalid_job(
    source: str, document: Document, problems: Iterable[Problem], given: Iterable[str] = ()
) -> InvalidJobError:
    """The error that lists all problems in the order of their lines; what has none comes last."""
    beside = set(given)
    ordered = sorted(problems, key=lambda problem: _line(document, problem) or sys.maxsize)
    lines = {_sentence(source, document, problem, beside): None for problem in ordered}
    return InvalidJobError("\n".join(lines))


def _sentence(source: str, document: Document, problem: Problem, beside: set[str]) -> str:
    where = f"{source}, line {line}" if (line := _line(document, problem)) else source
    if problem.path and problem.path[0] in beside:
        where = f"{source}, with the options given"
    return f"{where}: {problem.message}" + ("" if problem.message.endswith((".", "?")) else ".")


def _line(document: Document, problem: Problem) -> int | None:
    """The line of a problem: its own, or that of the nearest value around it."""
    if problem.line is not None:
        return problem.line
    paths = (problem.path[:length] for length in range(len(problem.path), 0, -1))
    return next((document.lines[path] for path in paths if path in document.lines), None)


def problems_of(error: ValidationError) -> list[Problem]:
    """What the check of the keys found, in our words."""
    return [problem for each in error.errors(include_url=False) for problem in _problems(each)]


def _problems(error: Any) -> Iterable[Problem]:
    """One for most errors, and one for each wrong entry of a mapping."""
    path, cause = tuple(error["loc"]), error.get("ctx", {}).get("error")
    if not isinstance(cause, EntryErrors):
        return [_problem(error, path)]
    return [
        Problem(_labelled((*path, name), message), (*path, name)) for name, message in cause.entries.items()
    ]


def _problem(error: Any, path: tuple[str | int, ...]) -> Problem:
    words = {
        "missing": f"'{path[-1] if path else ''}' is missing",
        "extra_forbidden": _unknown_key(path),
        "model_type": "a mapping of keys is expected here",
        "dict_type": "a mapping is expected here",
        "tuple_type": "a list is expected here",
    }
    if error["type"] == "value_error":
        return Problem(_labelled(path, str(error["ctx"]["error"])), path)
    if path == ("run",) and error["type"] == "missing":
        return Problem("'run' is missing: the command that trains, such as 'run: python train.py'", ())
    message = words.get(error["type"], str(error["msg"]))
    return Problem(message if error["type"] == "extra_forbidden" else _labelled(path, message), path)


def _labelled(path: tuple[str | int, ...], message: str) -> str:
    return f"{_dotted(path)}: {message}" if path else message


def _dotted(path: Iterable[str | int]) -> str:
    """'resources.any_of[0].cpus'."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def _unknown_key(path: tuple[str | int, ...]) -> str:
    if not path:
        return "unknown key"
    *above, key = path
    inside = f" in '{_dotted(above)}'" if above else ""
    return f"unknown key '{key}'{inside}. {_near(str(key), above)}"


def _near(key: str, above: list[str | int]) -> str:
    if above and key in JobKeys.model_fields:
        return f"It belongs at the top of the file, not under '{above[0]}'."
    if key in _HOMES:
        return f"It belongs under '{_HOMES[key]}'."
    return did_you_mean(key, _known_keys(above))


def _known_keys(above: list[str | int]) -> set[str]:
    model: type[BaseModel] = JobKeys
    for part in above:
        if isinstance(part, str):
            model = _MODELS.get((model, part), model)
    unused = (
        UNUSED if model is JobKeys else UNUSED_RESOURCES if issubclass(model, MachineKeys) else frozenset()
    )
    return set(model.model_fields) | {key for key in unused if not key.startswith("_")}


def _models(model: type[Keys]) -> Iterable[tuple[tuple[type[BaseModel], str], type[BaseModel]]]:
    """Which model describes each key that has keys of its own."""
    for name, key in model.model_fields.items():
        for kind in (key.annotation, *getattr(key.annotation, "__args__", ())):
            if isinstance(kind, type) and issubclass(kind, Keys):
                yield (model, name), kind
                yield from _models(kind)


def _homes(model: type[BaseModel], place: str = "") -> Iterable[tuple[str, str]]:
    """Each key that is no key of the file itself, with the mapping that it is a key of; the outermost first."""
    inner = [(name, kind) for (above, name), kind in _MODELS.items() if above is model]
    for name, kind in inner:
        unused = UNUSED_RESOURCES if issubclass(kind, MachineKeys) else frozenset()
        yield from ((key, f"{place}{name}") for key in kind.model_fields.keys() | unused)
    for name, kind in inner:
        yield from _homes(kind, f"{place}{name}.")


_MODELS = dict(_models(JobKeys))
_HOMES = dict(reversed(list(_homes(JobKeys))))
