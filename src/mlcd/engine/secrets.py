"""Secret values: in a file that only the owner can read, while the job needs them; never anywhere else.

In the home of a server, which has a key, the file is sealed with it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.fernet import Fernet

KEY_FILE = "secret.key"  # in the home; a server makes it

_FILE = "secrets.json"
_SEALED = "secrets.sealed"
_SHORTEST = 4  # shorter values would blank out ordinary text


def keep_secrets(folder: Path, secrets: Mapping[str, str]) -> None:
    """Write them for the controllers to come."""
    if not secrets:
        return
    key = _key_of(folder)
    text = json.dumps(dict(secrets)).encode()
    file = os.open(folder / (_SEALED if key else _FILE), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(file, "wb") as stream:
        stream.write(_fernet(key).encrypt(text) if key else text)


def read_secrets(folder: Path) -> dict[str, str]:
    """What keep_secrets wrote."""
    sealed, file = folder / _SEALED, folder / _FILE
    if sealed.is_file():
        return dict(json.loads(_fernet(_key_of(folder)).decrypt(sealed.read_bytes())))
    return dict(json.loads(file.read_text())) if file.is_file() else {}


def forget_secrets(folder: Path) -> None:
    """The job needs them no more."""
    (folder / _FILE).unlink(missing_ok=True)
    (folder / _SEALED).unlink(missing_ok=True)


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


def _key_of(job_folder: Path) -> bytes:
    """The key of the home that a job lies in; empty: this home is no server's."""
    file = job_folder.parent.parent / KEY_FILE
    return file.read_bytes().strip() if file.is_file() else b""


def _fernet(key: bytes) -> Fernet:
    from cryptography.fernet import Fernet  # comes with the server, and so does the key

    return Fernet(key.split(b",")[0])


def redact(text: str, secrets: Mapping[str, str]) -> str:
    """The text with every secret value blotted out."""
    for name, value in secrets.items():
        if len(value) >= _SHORTEST:
            text = text.replace(value, f"<{name}>")
    return text
