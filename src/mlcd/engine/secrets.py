"""Secret values: in a file that only the owner can read, while the job needs them; never anywhere else."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

_FILE = "secrets.json"
_SHORTEST = 4  # shorter values would blank out ordinary text


def keep_secrets(folder: Path, secrets: Mapping[str, str]) -> None:
    """Write them for the controllers to come."""
    if not secrets:
        return
    file = os.open(folder / _FILE, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(file, "w") as stream:
        json.dump(dict(secrets), stream)


def read_secrets(folder: Path) -> dict[str, str]:
    """What keep_secrets wrote."""
    file = folder / _FILE
    return dict(json.loads(file.read_text())) if file.is_file() else {}


def forget_secrets(folder: Path) -> None:
    """The job needs them no more."""
    (folder / _FILE).unlink(missing_ok=True)


def scrub_logs(folder: Path, secrets: Mapping[str, str]) -> None:
    """Blot the values out of the logs of a job that has ended, each file whole or not at all."""
    if not secrets:
        return
    for log in folder.glob("tasks/*/logs/*.log"):
        text = log.read_text(errors="replace")
        if (clean := redact(text, secrets)) != text:
            fresh = log.with_suffix(".new")
            fresh.write_text(clean)
            fresh.replace(log)


def redact(text: str, secrets: Mapping[str, str]) -> str:
    """The text with every secret value blotted out."""
    for name, value in secrets.items():
        if len(value) >= _SHORTEST:
            text = text.replace(value, f"<{name}>")
    return text
