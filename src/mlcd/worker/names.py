"""Names of files that somebody else chose: whether they stay in the folder that they are put into."""

from __future__ import annotations

from typing import Any

LONGEST_NAME = 255  # bytes, as Linux has it
LONGEST_PATH = 4000


def is_plain(name: Any) -> bool:
    """Whether this is the name of one file and nothing more: no separator, no '..', not too long."""
    if not isinstance(name, str) or name in ("", ".", "..") or "/" in name or "\0" in name:
        return False
    try:
        return len(name.encode("utf-8", "surrogateescape")) <= LONGEST_NAME
    except UnicodeEncodeError:
        return False


def is_inner(path: Any) -> bool:
    """Whether this is a relative path that stays below where it begins."""
    if not isinstance(path, str) or len(path) > LONGEST_PATH:
        return False
    return all(is_plain(part) for part in path.split("/"))
