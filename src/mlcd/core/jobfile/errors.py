"""What is wrong with a job file, said with the line, the key and the nearest valid key."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from functools import cache

from mlcd.core.job import Job
from mlcd.core.jobfile.keys import Section, section_of
from mlcd.core.jobfile.yaml import Document, Path, Problem
from mlcd.errors import InvalidJobError, did_you_mean


def invalid_job(
    source: str, document: Document, problems: Iterable[Problem], given: Iterable[str] = ()
) -> InvalidJobError:
    """The error that lists all problems in the order of their lines; what has none comes last."""
    beside = set(given)
    ordered = sorted(problems, key=lambda problem: _line(document, problem) or sys.maxsize)
    lines = {_sentence(source, document, problem, beside): None for problem in ordered}
    return InvalidJobError("\n".join(lines).encode(errors="replace").decode())


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


def problem_at(path: Path, message: str) -> Problem:
    """A problem with the key that it is about."""
    return Problem(f"{dotted(path)}: {message}" if path else message, path)


def unknown_key(path: Path, section: Section) -> Problem:
    """A key that its section does not have, with the one that was probably meant."""
    *above, key = path
    inside = f" in '{dotted(above)}'" if above else ""
    return Problem(f"unknown key '{key}'{inside}. {_near(str(key), above, section)}", path)


def dotted(path: Iterable[str | int]) -> str:
    """'resources.any_of[0].cpus'."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def _near(key: str, above: list[str | int], section: Section) -> str:
    if above and key in section_of(Job).known:
        return f"It belongs at the top of the file, not under '{above[0]}'."
    if home := _homes().get(key):
        return f"It belongs under '{home}'."
    return did_you_mean(key, section.suggested)


@cache
def _homes() -> dict[str, str]:
    """Each key that is no key of the file itself, with the section that it is a key of; the outermost wins."""
    return dict(sorted(_places(section_of(Job), ""), key=lambda pair: -pair[1].count(".")))


def _places(section: Section, above: str) -> Iterator[tuple[str, str]]:
    for entry in section.entries:
        if entry.section is not None:
            place = f"{above}{entry.name}"
            yield from ((key, place) for key in {*entry.section.known, *entry.section.unused})
            yield from _places(entry.section, f"{place}.")
