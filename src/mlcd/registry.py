"""Names to plug-ins. Built-ins register through the same entry points as outsiders; imported when used."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

from mlcd.errors import NotFoundError, did_you_mean


def names(group: str) -> list[str]:
    """What is registered in a group: 'clouds', 'platforms' or 'searchers'."""
    return sorted({point.name for point in entry_points(group=f"mlcd.{group}")})


def load(group: str, name: str) -> Any:
    """The object that a name stands for."""
    for point in entry_points(group=f"mlcd.{group}", name=name):
        return point.load()
    kind = {"clouds": "cloud", "platforms": "platform", "searchers": "search strategy"}.get(group, group)
    raise NotFoundError(f"No {kind} is called '{name}'.", did_you_mean(name, names(group)))
