"""What a field of a Job says about its key in the job file."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Key:
    """A key of the job file, annotated on the field that it fills.

        min_seconds: Annotated[float, Key("of measuring, after the warm-up", "duration")] = 5.0

    This is all there is to adding a key: core/jobfile reads it, writes it back, names it in errors, and
    docs/make_reference.py puts it into the reference. A second Key on a field is another way to say the same.
    """

    meaning: str = ""  # as the reference says it, in Markdown
    value: str = ""  # the kind of value, by its name in core/jobfile/kinds.py; empty: by the field's type
    name: str = ""  # in the file; empty: the field's name
    default: str = ""  # in words, where the field's default does not say it; the key may then be left out
    short: str = ""  # an example of the short form: 'random' for `search: random`
    aliases: tuple[str, ...] = ()
    also: str = ""  # a second field that it fills
    heading: str = ""  # of the table that begins here in the reference; the fields after it are in it too
