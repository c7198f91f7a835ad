"""Names to plug-ins. Built-ins register through the same entry points as outsiders; imported when used.

Several clouds are named with a plus, as in `local+functions`; the plug-in `together` makes one of them.
"""

from __future__ import annotations

from functools import partial
from importlib.metadata import entry_points
from typing import Any

from mlcd.errors import NotFoundError, did_you_mean

TOGETHER = "together"


def names(group: str) -> list[str]:
    """What is registered in a group: 'clouds', 'platforms' or 'searchers'."""
    return sorted({point.name for point in entry_points(group=f"mlcd.{group}")} - {TOGETHER})


def load(group: str, name: str) -> Any:
    """The object that a name stands for."""
    if group == "clouds" and "+" in name:
        return _load_together(group, [part.strip() for part in name.split("+")])
    if name != TOGETHER:
        for point in entry_points(group=f"mlcd.{group}", name=name):
            return point.load()
    kind = {"clouds": "cloud", "platforms": "platform", "searchers": "search strategy"}.get(group, group)
    raise NotFoundError(f"No {kind} is called '{name}'.", did_you_mean(name, names(group)))


def _load_together(group: str, parts: list[str]) -> Any:
    for part in parts:
        load(group, part)
    (together,) = entry_points(group=f"mlcd.{group}", name=TOGETHER)
    return partial(together.load(), parts)
