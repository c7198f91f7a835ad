"""A job to the keys of a job file: what goes over the wire is checked there like any file."""

from __future__ import annotations

from typing import Any

from mlcd.core.job import Job
from mlcd.core.jobfile.keys import Entry, Section, section_of


def job_to_dict(job: Job) -> dict[str, Any]:
    """The mapping of which `job_from_dict` makes this job again; secrets are named, without their values."""
    noun: type = type(job)
    return _keys(section_of(noun), job)


def _keys(section: Section, noun: Any) -> dict[str, Any]:
    if section.many:
        return {"any_of": [_keys(section_of(section.noun), each) for each in noun]}
    written = {each.name: _value(each, noun) for each in section.entries if each.written}
    return {name: value for name, value in written.items() if value not in ("", None, [], {})}


def _value(entry: Entry, noun: Any) -> Any:
    values = [getattr(noun, name) for name in entry.fields]
    if entry.kind is not None:
        return entry.kind.write(*values)
    assert entry.section is not None
    return None if values[0] is None else _keys(entry.section, values[0])
