"""The keys of a job file, taken from the fields of a Job: sections of keys, and keys that hold a value.

section_of(Job) ── name, run, …                entries with a kind of value
                ├─ search ── strategy, …       an entry with a section of its own
                └─ resources ── cpus, …, any_of, ordered
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from enum import StrEnum
from functools import cache, cached_property
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from mlcd.core.job import Job, Resources
from mlcd.core.jobfile.kinds import KINDS, YES_OR_NO, Kind, choices
from mlcd.core.keys import Key

_SUCH_MAPPINGS = "list of such mappings"
# Beside the keys of Resources, where the file names its machines.
_ALTERNATIVES = (
    Key("alternatives; what stands beside the list holds for all of them", _SUCH_MAPPINGS, "any_of"),
    Key("taken as `any_of`: the search decides the order", _SUCH_MAPPINGS, "ordered"),
)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Keys of a SkyPilot task that mlcd understands and has no use for.
UNUSED: dict[type, frozenset[str]] = {
    Job: _words(
        "event_callback service pool inputs file_mounts_mapping config experimental volumes volume_mounts "
        "managed_secrets api_server_access _metadata"
    ),
    Resources: _words(
        "zone disk_size disk_tier network_tier local_disk ephemeral_storage ports image_id labels autostop "
        "accelerator_args job_recovery spot_recovery volumes priority priority_class hooks "
        "_no_missing_accel_warnings _docker_login_config _is_image_managed _requires_fuse "
        "_cluster_config_overrides"
    ),
}


@dataclass(frozen=True)
class Entry:
    """A key with the fields that it fills."""

    name: str
    key: Key
    owner: str  # the field that it is annotated on
    kind: Kind | None = None  # of its value; None: a section
    form: str = ""  # of its value, as the reference describes it
    section: Section | None = None
    default: Any = None  # MISSING: it is required
    written: bool = True  # when a job is written back; else it is another way to say the same

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields that its value fills; of another way to say the same, one that mlcd.core.jobfile.build knows."""
        if self.key.also:
            return self.owner, self.key.also
        return (self.owner if self.written else self.name,)

    @property
    def shown_default(self) -> str:
        """Its default in Markdown."""
        if self.key.default or self.default is MISSING:
            return self.key.default or "required"
        value = self.default[0] if isinstance(self.default, tuple) and self.default else self.default
        if value is None or value in ("", (), {}):
            return "none"
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return f"`{value:g}`" if number else f"`{str(value).lower()}`"

    def excludes(self, other: Entry) -> bool:
        """Whether both say the same thing."""
        return bool({self.owner, *self.fields} & {other.owner, *other.fields})


@dataclass(frozen=True)
class Section:
    """The keys of one mapping."""

    noun: type  # that is made of them
    entries: tuple[Entry, ...]
    many: bool = False  # a tuple of nouns is made: of alternatives

    @cached_property
    def known(self) -> dict[str, Entry]:
        """The keys by every name that they go by."""
        return {name: each for each in self.entries for name in (each.name, *each.key.aliases)}

    @property
    def unused(self) -> frozenset[str]:
        """Keys that are taken note of and have no effect."""
        return next((keys for noun, keys in UNUSED.items() if issubclass(self.noun, noun)), frozenset())

    @property
    def suggested(self) -> set[str]:
        """The keys that someone may have meant."""
        return {each.name for each in self.entries} | {key for key in self.unused if key[0] != "_"}

    @property
    def short(self) -> Entry | None:
        """The key that a value stands for which is no mapping."""
        return next((each for each in self.entries if each.key.short), None)


@cache
def section_of(noun: type, many: bool = False) -> Section:
    """The keys of a noun: those of its annotated fields."""
    hints = get_type_hints(noun, include_extras=True)
    found = [
        _entry(owner.name, get_args(hints[owner.name])[0], key, _default(owner), number == 0)
        for owner in fields(noun)
        if get_origin(hints[owner.name]) is Annotated
        for number, key in enumerate(_keys(hints[owner.name]))
    ]
    if many:
        inner = section_of(noun)
        found += [
            Entry(key.name, key, "alternatives", form=key.value, section=inner, written=False) for key in _ALTERNATIVES
        ]
    return Section(noun, tuple(found), many)


def _keys(hint: Any) -> list[Key]:
    return [each for each in get_args(hint)[1:] if isinstance(each, Key)]


def _default(owner: Any) -> Any:
    return owner.default if owner.default_factory is MISSING else owner.default_factory()


def _entry(owner: str, hint: Any, key: Key, default: Any, written: bool) -> Entry:
    default = None if key.default and default is MISSING else default
    bare = Entry(key.name or owner, key, owner, default=default, written=written)
    if key.value:
        return replace(bare, kind=KINDS[key.value], form=key.value)
    kind = next(each for each in (hint, *get_args(hint)) if isinstance(each, type))
    if is_dataclass(kind):
        return replace(bare, section=section_of(kind, get_origin(hint) is tuple))
    if issubclass(kind, StrEnum):
        return replace(bare, kind=choices(kind, bare.name), form=_either(kind))
    assert kind is bool, f"{bare.name}: no kind of value is named"
    return replace(bare, kind=KINDS[YES_OR_NO], form=YES_OR_NO)


def _either(enum: type[StrEnum]) -> str:
    """'`a`, `b` or `c`'."""
    *others, last = [f"`{each.value}`" for each in enum]
    return f"{', '.join(others)} or {last}"


def leaves(section: Section, above: str = "") -> Iterator[tuple[str, Entry]]:
    """Every key that holds a value, with dots; alternatives repeat the keys of their section."""
    for entry in section.entries:
        if entry.section is None or entry.form:
            yield f"{above}{entry.name}", entry
        else:
            yield from leaves(entry.section, f"{above}{entry.name}.")
