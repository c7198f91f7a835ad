"""The keys of a job file as the form shows them, from the definition of a job."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from mlcd.core.job import Job
from mlcd.core.jobfile.keys import Entry, leaves, section_of


@dataclass(frozen=True)
class FormKey:
    """What the form says of a key."""

    name: str  # with dots
    value: str
    default: str
    meaning: str


@cache
def form_keys() -> dict[str, FormKey]:
    """Every key that holds a value, by its name with dots."""
    return {name: _form_key(name, entry) for name, entry in leaves(section_of(Job))}


@cache
def short_forms() -> dict[str, str]:
    """Keys that may hold the value of an inner key, with that one: search → strategy."""
    sections = {entry.name: entry.section for entry in section_of(Job).entries if entry.section}
    return {name: section.short.name for name, section in sections.items() if section.short}


def _form_key(name: str, entry: Entry) -> FormKey:
    return FormKey(name, *(_plain(words) for words in (entry.form, entry.shown_default, entry.key.meaning)))


def _plain(markdown: str) -> str:
    return re.sub(r"\[(.+?)\]\(.+?\)", r"\1", markdown).replace("`", "")
