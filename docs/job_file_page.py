"""The tables of docs/reference/job-file.md, from the keys of a job: each stands below a comment with its heading."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from mlcd.core.job import Job
from mlcd.core.jobfile.keys import UNUSED, Entry, Section, leaves, section_of

PAGE = Path(__file__).parent / "reference" / "job-file.md"
MADE = re.compile(r"(<!-- made: (.+?) -->\n\n).*?(\n\n<!-- end -->)", re.DOTALL)
HEAD = "| key | value | default | meaning |\n|---|---|---|---|"


def make_page(page: str, noun: type = Job) -> str:
    """The page with every table made anew."""
    made = tables(section_of(noun)) | {f"unused in {each.__name__}": unused(each) for each in UNUSED}
    absent = made.keys() - {match[2] for match in MADE.finditer(page)}
    assert not absent, f"{PAGE.name} has no place for: {', '.join(absent)}"
    return MADE.sub(lambda match: match[1] + made[match[2]] + match[3], page)


def tables(section: Section) -> dict[str, str]:
    """A table for each heading of the definition."""
    found: dict[str, list[str]] = {}
    heading = ""
    for entry in section.entries:
        heading = entry.key.heading or heading
        found.setdefault(heading, [HEAD]).extend(rows(entry))
    return {heading: "\n".join(lines) for heading, lines in found.items()}


def rows(entry: Entry) -> Iterator[str]:
    """A row for each key that holds a value."""
    inner = [(entry.name, entry)] if entry.section is None else leaves(entry.section, f"{entry.name}.")
    for name, each in inner:
        also = "".join(f"; also called `{alias}`" for alias in each.key.aliases)
        short = f"; short form `{entry.name}: {each.key.short}`" if each.key.short else ""
        yield f"| `{name}` | {each.form} | {each.shown_default} | {each.key.meaning}{also}{short} |"


def unused(noun: type) -> str:
    """SkyPilot's keys without effect."""
    return ", ".join(f"`{key}`" for key in sorted(UNUSED[noun]) if key[0] != "_")
