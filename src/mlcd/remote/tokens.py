"""Tokens of servers, kept in a file that only the owner can read."""

from __future__ import annotations

import json
import os
from pathlib import Path

from mlcd.errors import UserError

FILE = "tokens.json"


def load_token(folder: Path, url: str) -> str:
    """The token of a server; empty if there is none."""
    return str(_read(folder / FILE).get(_key(url), ""))


def save_token(folder: Path, url: str, token: str) -> Path:
    """Keep a server's token, in place of an earlier one; the empty one forgets it."""
    tokens = {**_read(folder / FILE), _key(url): token}
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh = folder / f"{FILE}.new"
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        json.dump({key: value for key, value in tokens.items() if value}, stream)
    fresh.chmod(0o600)  # it may have been there with another mode
    return fresh.replace(folder / FILE)


def _read(file: Path) -> dict[str, str]:
    if not file.is_file():
        return {}
    try:
        return dict(json.loads(file.read_text()))
    except (ValueError, OSError) as error:
        raise UserError(f"{file} cannot be read: {error}", "Remove it, then `mlcd login URL` again.") from error


def _key(url: str) -> str:
    return url.rstrip("/")
