"""The kinds of value that a key may have, by the name that the reference shows: how each is read and written back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import mlcd.core.jobfile.context as around
import mlcd.core.jobfile.values as read
from mlcd.core.job import NodeRange
from mlcd.core.jobfile.context import Context
from mlcd.core.notices import Recipient


def _same(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, StrEnum):
        return value.value
    return list(value) if isinstance(value, tuple) else value


@dataclass(frozen=True)
class Kind:
    """Reads a value, or several for a key that fills several fields; writes what it reads back."""

    read: Callable[..., Any]
    write: Callable[..., Any] = _same
    in_context: bool = False  # reads with the context as its second argument

    def value(self, written: Any, context: Context) -> Any:
        """The value that was written; ValueError says what is wrong."""
        return self.read(written, context) if self.in_context else self.read(written)


def choices(kind: type[StrEnum], what: str) -> Kind:
    """One word of an enum."""
    return Kind(lambda value: read.choice(kind, value, what))


def _one_or_list(words: tuple[str, ...]) -> Any:
    return words[0] if len(words) == 1 else list(words)


def _amount(least: float, exact: bool) -> str:
    return f"{least!r}{'' if exact else '+'}" if least else ""


def _accelerators(pairs: tuple[tuple[str, float], ...]) -> list[str]:
    return [f"{name}:{count!r}" for name, count in pairs]


def _nodes(nodes: NodeRange) -> str:
    return f"{nodes.fewest}..{nodes.most}"


def _deadline(seconds: float | None, at: float | None) -> str | float | None:
    return seconds if at is None else datetime.fromtimestamp(at, UTC).isoformat()


def _recipients(recipients: tuple[Recipient, ...]) -> list[dict[str, Any]]:
    return [
        {
            each.channel.value: each.address,
            "events": [occasion.value for occasion in each.occasions],
            **({"sign_with": each.sign_with} if each.sign_with else {}),
        }
        for each in recipients
    ]


YES_OR_NO = "yes or no"
KINDS = {
    "text": Kind(read.text),
    "command": Kind(read.filled_text),
    "name": Kind(read.filled_text),
    "text of one line, up to 100 letters": Kind(read.job_name),
    "name or list": Kind(read.names, _one_or_list),
    "cloud or list": Kind(read.clouds, _one_or_list),
    "`cloud/region`": Kind(around.infra, in_context=True),
    YES_OR_NO: Kind(read.yes_or_no),
    "any number": Kind(read.number),
    "number": Kind(read.positive),
    "share": Kind(read.share),
    "whole number": Kind(read.count),
    "whole number or 0": Kind(read.count_or_zero),
    "money": Kind(read.usd),
    "duration": Kind(read.seconds),
    "duration or 0": Kind(read.seconds_or_zero),
    "duration or moment": Kind(around.deadline, _deadline, in_context=True),
    "number or range": Kind(read.node_range, _nodes),
    "number, list or range": Kind(read.batch_sizes),
    "whole number, list or range": Kind(read.counts),
    "number, or `4+`": Kind(read.cpus, _amount),
    "GiB, or `32+`, `512MB`, `1TB+`": Kind(read.memory, _amount),
    "`A100`, `A100:8`, list, or mapping": Kind(read.accelerators, _accelerators),
    "`up` or `down`": Kind(read.direction),
    "`vm`, `function` or both": Kind(read.kinds),
    "regular expression": Kind(read.pattern),
    "mapping": Kind(read.mapping),
    "folder": Kind(around.workdir, in_context=True),
    "folder below the working directory": Kind(read.inside_path),
    "pattern or list of patterns": Kind(around.outputs, in_context=True),
    "mapping of names to texts": Kind(around.envs, in_context=True),
    "mapping, or list of names": Kind(around.secrets, in_context=True),
    "mapping of target to source": Kind(around.mounts, in_context=True),
    "address, mapping, or list of them": Kind(around.recipients, _recipients, in_context=True),
}
