"""Values read as people write them; a ValueError says in plain words what is wrong."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, TypeVar

from mlcd import registry
from mlcd.core.job import Direction, NodeRange
from mlcd.core.units import NoTimeZoneError, parse_duration, parse_moment
from mlcd.errors import did_you_mean

T = TypeVar("T")

_RANGE = re.compile(r"\s*(\d{1,9})\s*\.\.\s*(\d{1,9})\s*")
_MEMORY = re.compile(r"([\d.]+)\s*(?:([kmgtp])i?b?)?\s*(\+?)", re.IGNORECASE)
_GIB = {"k": 2.0**-20, "m": 2.0**-10, "g": 1.0, "t": 2.0**10, "p": 2.0**20}
_CLOCK_TIME = "'2026-11-17T12:00+01:00'"
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class EntryErrors(ValueError):
    """What is wrong with several entries of one mapping, each by its name."""

    def __init__(self, entries: dict[str, str]) -> None:
        super().__init__("; ".join(f"{name}: {message}" for name, message in entries.items()))
        self.entries = entries


def each_entry(mapping: dict[str, Any], read: Callable[[str, Any], T]) -> dict[str, T]:
    """Every entry of a mapping read; all that is wrong with them is said at once."""
    found, wrong = {}, {}
    for name, value in mapping.items():
        try:
            found[name] = read(name, value)
        except ValueError as error:
            wrong[name] = str(error)
    if wrong:
        raise EntryErrors(wrong)
    return found


def text(value: Any) -> str:
    """A text; numbers are taken as their text."""
    if isinstance(value, str | os.PathLike):
        return _whole_characters(os.fspath(value))
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    raise ValueError(f"{shown(value)} is not a text")


def texts(value: Any) -> tuple[str, ...]:
    """One text or a list of them."""
    values = value if isinstance(value, list | tuple) else [value]
    return tuple(dict.fromkeys(filled_text(each) for each in values))


def filled_text(value: Any) -> str:
    """A text with something in it."""
    if not text(value).strip():
        raise ValueError("it is blank")
    if "\0" in text(value):
        raise ValueError("it holds a NUL character")
    return text(value)


def job_name(value: Any) -> str:
    """A name of one line."""
    name = filled_text(value).strip()
    if len(name) > 100 or not name.isprintable():
        raise ValueError("a name is one line of at most 100 letters")
    return name


def yes_or_no(value: Any) -> bool:
    """true or false, or what older YAML took for it."""
    words = {"yes": True, "on": True, "true": True, "no": False, "off": False, "false": False}
    found = value if isinstance(value, bool) else words.get(value.lower()) if isinstance(value, str) else None
    if found is None:
        raise ValueError(f"{shown(value)} is neither true nor false")
    return found


def number(value: Any, what: str = "a number", above: float = -math.inf, below: float = math.inf) -> float:
    """A finite number between two others."""
    found = _number(value)
    if found is None or not above < found < below:
        raise ValueError(f"{shown(value)} is not {what}")
    return found


def positive(value: Any, what: str = "a number greater than zero") -> float:
    """A number above zero."""
    return number(value, what, above=0.0)


def share(value: Any) -> float:
    """A part of one."""
    return number(value, "a share between 0 and 1", above=0.0, below=1.0)


def count(value: Any, what: str = "a whole number greater than zero") -> int:
    """A whole number above zero."""
    found = positive(value, what)
    if not found.is_integer():
        raise ValueError(f"{shown(value)} is not {what}")
    if found > 1e15:
        raise ValueError("the number is too large")
    return int(found)


def count_or_zero(value: Any) -> int:
    """A whole number of at least zero."""
    return 0 if _number(value) == 0 else count(value, "a whole number of zero or more")


def usd(value: Any) -> float:
    """Dollars: 100, '$100', '1,000 USD'."""
    amount = value
    if isinstance(value, str):
        amount = re.sub(r"\s*(usd|dollars?)\s*$", "", value.strip().removeprefix("$"), flags=re.IGNORECASE)
        amount = amount.replace(",", "") if re.fullmatch(r"\d{1,3}(,\d{3})+(\.\d+)?", amount) else amount
    return positive(amount, "an amount of US dollars such as 100 or '$2.50'")


def seconds(value: Any) -> float:
    """A duration, from '6h', seconds or a timedelta."""
    return parse_duration(value.total_seconds() if isinstance(value, timedelta) else _plain(value))


def seconds_or_zero(value: Any) -> float:
    """A duration that may be nothing."""
    return 0.0 if _number(value) == 0 else seconds(value)


def moment_or_seconds(value: Any) -> datetime | float:
    """A clock time with its zone, or a duration."""
    if isinstance(value, datetime):
        value = value.isoformat()
    if isinstance(value, str) and re.match(r"\s*\d{4}-\d", value):
        return _moment(value)
    try:
        return seconds(value)
    except ValueError as error:
        raise ValueError(f"{error}, nor a clock time with its zone such as {_CLOCK_TIME}") from error


def node_range(value: Any) -> NodeRange:
    """How many nodes: 4 or '1..8'."""
    if ends := _ends(value):
        return NodeRange(*ends)
    nodes = count(value, "a whole number of nodes or a range such as 1..8")
    return NodeRange(nodes, nodes)


def batch_sizes(value: Any) -> tuple[int, ...]:
    """The global batch sizes: 256, [64, 96, 128], or '32..512' for 32, 64, 128, 256, 512."""
    return counts(value, "a batch size such as 256, a list of them, or a range such as 32..512")


def counts(
    value: Any, what: str = "a whole number from 1 on, a list of them, or a range such as 1..4"
) -> tuple[int, ...]:
    """Several whole numbers: 1, [1, 3], or '1..4' for 1, 2, 4."""
    if ends := _ends(value):
        sizes = (ends[1] // ends[0]).bit_length()
        return tuple(ends[0] * 2**power for power in range(sizes))
    values = value if isinstance(value, list | tuple) else [value]
    if not values:
        raise ValueError("the list is empty")
    return tuple(sorted({count(each, what) for each in values}))


def choice(kind: type[StrEnum], value: Any, what: str) -> StrEnum:
    """A member of an enum; what: the name of its key, for the error."""
    word, known = text(value).strip().lower(), [each.value for each in kind]
    if word in known:
        return kind(word)
    if len(known) == 2:
        raise ValueError(f"{shown(value)} is neither '{known[0]}' nor '{known[1]}'")
    raise ValueError(f"{shown(value)} is not a {what}. {did_you_mean(word, known)}")


def direction(value: Any) -> Direction:
    """up or down, or what others call it."""
    words = {"max": "up", "maximize": "up", "min": "down", "minimize": "down"}
    word = text(value).strip().lower()
    return Direction(choice(Direction, words.get(word, value), "direction"))


def mapping(value: Any) -> dict[str, Any]:
    """Any mapping."""
    if not isinstance(value, dict):
        raise ValueError("a mapping is expected here")
    return value


def cpus(value: Any) -> tuple[float, bool]:
    """vCPUs and whether just so many: 4, '4+'."""
    words = text(value).strip()
    return positive(words.removesuffix("+"), "a number of CPUs such as 4 or '4+'"), not words.endswith("+")


def memory(value: Any) -> tuple[float, bool]:
    """GiB and whether just so much: 32, '32+', '512MB', '1TB+'."""
    match = _MEMORY.fullmatch(text(value).strip())
    if not match:
        raise ValueError(f"{shown(value)} is not an amount of memory such as 32, '32+' or '64GB'")
    return positive(match[1]) * _GIB[(match[2] or "g").lower()], not match[3]


def clouds(value: Any) -> tuple[str, ...]:
    """Names of clouds, other names such as SkyPilot's `aws` taken for ours; '*' is any."""
    return tuple(registry.cloud_name(word.lower()) for word in names(value))


def names(value: Any) -> tuple[str, ...]:
    """One name or a list of them; '*' is any."""
    words = texts(value)
    return () if "*" in words else words


def accelerators(value: Any) -> tuple[tuple[str, float], ...]:
    """Names and counts: 'A100:8', a list, or a mapping such as {A100: 8} or {A100:8, V100:8}."""
    if isinstance(value, dict):
        return tuple(_accelerator(name if each is None else f"{name}:{text(each)}") for name, each in value.items())
    return tuple(_accelerator(each) for each in texts(value))


def kinds(value: Any) -> tuple[str, ...]:
    """What may be rented: 'vm', 'function' or both."""
    for word in texts(value):
        if word not in ("vm", "function"):
            raise ValueError(f"{shown(word)} is neither 'vm' nor 'function'")
    return texts(value)


def pattern(value: Any) -> str:
    """A regular expression with a named group for what is to be read."""
    try:
        groups = re.compile(text(value)).groupindex
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"{shown(value)} is not a regular expression: {error}") from error
    if not groups:
        raise ValueError("name what is read with groups such as (?P<step>\\d+), (?P<samples>\\d+), (?P<loss>\\S+)")
    return text(value)


def inside_path(value: Any) -> str:
    """A path or pattern below the working directory."""
    path = filled_text(value)
    if path.startswith(("/", "~")) or ".." in path.split("/"):
        raise ValueError(f"{shown(value)} is not a path inside the working directory")
    return path


def inside_paths(value: Any) -> tuple[str, ...]:
    """One such path or pattern, or a list of them."""
    return tuple(inside_path(each) for each in texts(value))


def env_name(name: str) -> str:
    """A name that an environment variable can have."""
    if not isinstance(name, str) or not _ENV_NAME.fullmatch(name):
        raise ValueError(f"{shown(name)} cannot be the name of an environment variable")
    return name


def shown(value: Any) -> str:
    """The value as an error shows it: short, and never a whole structure."""
    if value is None:
        return "nothing"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and abs(value) >= 10**15:
        return "so large a number"
    word = str(value) if len(str(value)) <= 60 else str(value)[:57] + "..."
    return repr(word) if isinstance(value, str) else word


def _whole_characters(words: str) -> str:
    try:
        words.encode()
    except UnicodeEncodeError as error:
        raise ValueError("it holds half a character") from error
    return words


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value.replace("_", "") if isinstance(value, str) else value)
    except ValueError:
        return None
    except OverflowError:
        raise ValueError("the number is too large") from None
    if math.isinf(found):
        raise ValueError("the number is too large")
    return None if math.isnan(found) else found


def _plain(value: Any) -> str | int | float:
    if isinstance(value, str) or _number(value) is not None:
        return value  # type: ignore[no-any-return]  # a text or a number
    raise ValueError(f"{shown(value)} is not a duration such as '90s', '45m', '6h', '1h30m' or '2d'")


def _moment(value: str) -> datetime:
    try:
        return parse_moment(value)
    except NoTimeZoneError:
        raise
    except ValueError as error:
        raise ValueError(f"{shown(value)} is not a clock time such as {_CLOCK_TIME}") from error


def _ends(value: Any) -> tuple[int, int] | None:
    """Both ends of a range such as '1..8'."""
    if not isinstance(value, str) or not (match := _RANGE.fullmatch(value)):
        return None
    low, high = int(match[1]), int(match[2])
    if low < 1:
        raise ValueError(f"{shown(value)} begins below one")
    if low > high:
        raise ValueError(f"{shown(value)} is upside down; write '{high}..{low}'")
    return low, high


def _accelerator(words: Any) -> tuple[str, float]:
    name, colon, amount = filled_text(words).strip().partition(":")
    if not name.strip() or (colon and not amount.strip()):
        raise ValueError(f"{shown(words)} is not an accelerator such as 'A100' or 'A100:8'")
    return name.strip(), positive(amount, f"a count, in {shown(words)}") if colon else 1.0
