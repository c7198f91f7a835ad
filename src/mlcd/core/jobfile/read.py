"""Plain data to a Job by its keys: every problem is noted, with its place, and the reading goes on."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field
from itertools import combinations
from typing import Any

from mlcd.core.job import Job
from mlcd.core.jobfile.build import build
from mlcd.core.jobfile.context import Context
from mlcd.core.jobfile.errors import dotted, problem_at, unknown_key
from mlcd.core.jobfile.keys import Entry, Section, section_of
from mlcd.core.jobfile.values import EntryErrors
from mlcd.core.jobfile.yaml import Path, Problem

_NO_RUN = Problem("'run' is missing: the command that trains, such as 'run: python train.py'")
Said = tuple[Entry, Any, Path]  # a key of the data, with its value and place


def read_job(data: dict[str, Any], context: Context) -> tuple[Job | None, list[Problem]]:
    """The job; or None and what is wrong with the data."""
    reader = _Reader(context)
    return reader.noun(section_of(Job), data, ()), reader.problems


@dataclass(frozen=True)
class _Reader:
    context: Context
    problems: list[Problem] = field(default_factory=list)

    def noun(self, section: Section, data: Any, path: Path) -> Any:
        """What the keys of a section make; None: it has a problem."""
        found = self.fields(section, data, path)
        try:
            return None if found is None else build(section, found, self.context)
        except ValueError as error:
            self._refuse(path, str(error))
            return None

    def fields(self, section: Section, data: Any, path: Path) -> dict[str, Any] | None:
        """The fields that the keys of a section fill; None: one of them has a problem."""
        if not isinstance(data, dict) and section.short is None:
            self._refuse(path, "a mapping of keys is expected here")
            return None
        before = len(self.problems)
        said = self._said(section, data, path)
        found: dict[str, Any] = {}
        for entry, value, place in said:
            read = self._value(entry, value, place)
            found |= zip(entry.fields, (read,) if len(entry.fields) == 1 else read or (), strict=False)
        self._check_set(section, said, path)
        return found if len(self.problems) == before else None

    def _said(self, section: Section, data: Any, path: Path) -> list[Said]:
        """Each key that the data has, in the order of the definition: some values depend on earlier ones."""
        if not isinstance(data, dict):
            assert section.short is not None
            return [(section.short, data, path)]
        said = [(name, (*path, str(name))) for name, value in data.items() if value is not None]
        for name, place in said:
            if name in section.unused:
                self.context.notices.append(f"{dotted(place)} is not used by mlcd.")
            elif name not in section.known:
                self.problems.append(unknown_key(place, section))
        known = [(section.known[name], data[name], place) for name, place in said if name in section.known]
        return sorted(known, key=lambda each: section.entries.index(each[0]))

    def _check_set(self, section: Section, said: list[Said], path: Path) -> None:
        """No key twice under two names, and none missing."""
        for (one, _, here), (other, _, there) in combinations(said, 2):
            if one.excludes(other):
                self._refuse(path, f"there is both '{here[-1]}' and '{there[-1]}'; leave one out")
        given = {entry.name for entry, _, _ in said}
        for entry in section.entries:
            if entry.default is MISSING and entry.name not in given:
                place = (*path, entry.name)
                missing = problem_at(place, f"'{entry.name}' is missing")
                self.problems.append(_NO_RUN if place == ("run",) else missing)

    def _value(self, entry: Entry, value: Any, path: Path) -> Any:
        if entry.section is not None:
            read = self._list if entry.form else self.noun
            return read(entry.section, value, path)
        assert entry.kind is not None
        try:
            return entry.kind.value(value, self.context)
        except EntryErrors as error:
            self.problems.extend(problem_at((*path, name), words) for name, words in error.entries.items())
        except ValueError as error:
            self._refuse(path, str(error))
        return None

    def _list(self, section: Section, value: Any, path: Path) -> list[dict[str, Any] | None] | None:
        if not isinstance(value, list | tuple):
            self._refuse(path, "a list is expected here")
            return None
        return [self.fields(section, each, (*path, number)) for number, each in enumerate(value)]

    def _refuse(self, path: Path, message: str) -> None:
        self.problems.append(problem_at(path, message))
