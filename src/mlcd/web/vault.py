"""Secrets sealed at rest: the key is in MLCD_SECRET_KEY, or in a file that only the owner can read.

The file is there in any case: what jobs at work need is sealed with it (see mlcd.engine.secrets).
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from mlcd.engine.secrets import KEY_FILE
from mlcd.errors import UserError

VARIABLE = "MLCD_SECRET_KEY"


class Vault:
    """Seals and opens texts."""

    def __init__(self, key: bytes) -> None:
        try:
            self._fernet = MultiFernet([Fernet(part) for part in key.split(b",")])  # the first one seals
        except ValueError as error:
            raise UserError(
                "The server's secret key is not valid.",
                "Make one with: python -c 'from cryptography.fernet import Fernet; print(Fernet.generate_key().decode())'",
            ) from error
        self.signing_key = key.split(b",")[0]

    def seal(self, text: str) -> str:
        """What can be stored."""
        return self._fernet.encrypt(text.encode()).decode()

    def open(self, sealed: str) -> str:
        """What was sealed; UserError if the key is another one."""
        try:
            return self._fernet.decrypt(sealed.encode()).decode()
        except InvalidToken as error:
            raise UserError(
                "A stored secret cannot be read with this server's key.", "Set the secret again."
            ) from error


def open_vault(home: Path, environ: MutableMapping[str, str]) -> Vault:
    """The vault of this server. The variable is taken out: no program started from here shall inherit it."""
    given = environ.pop(VARIABLE, "")
    kept = _key_file(home / KEY_FILE)
    return Vault(given.encode() if given else kept)


def _key_file(file: Path) -> bytes:
    """The key in the file, which is made if need be: whole, and once, whoever else starts at this moment."""
    if not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fresh = file.with_name(f"{KEY_FILE}.{os.getpid()}")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(Fernet.generate_key())
            stream.flush()
            os.fsync(stream.fileno())
        try:
            os.link(fresh, file)
        except FileExistsError:
            pass  # another process was faster; its key is the key
        finally:
            fresh.unlink()
    return file.read_bytes().strip()
