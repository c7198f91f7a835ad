"""Passwords and tokens: what people know, and the hashes that are kept of it."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from functools import cache

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from mlcd.errors import UserError

SHORTEST, LONGEST = 10, 256
PREFIX = "mlcd"  # so that a token left somewhere can be told for one

_hasher = PasswordHasher()


def hash_password(password: str) -> str:
    """The argon2 hash of a password that is long enough."""
    if not SHORTEST <= len(password) <= LONGEST:
        raise UserError(f"A password has {SHORTEST} to {LONGEST} characters.", "Choose a longer one.")
    return _hasher.hash(password)


def fits(password: str, kept: str) -> bool:
    """Whether this is the password; takes as long where there is none, so that names cannot be guessed by time."""
    try:
        return _hasher.verify(kept or _nobody(), password[:LONGEST]) and bool(kept)
    except (VerificationError, InvalidHashError):
        return False


def new_token(token_id: str | None = None) -> tuple[str, str, str]:
    """A token: its id, the text that its owner keeps, and the hash that is kept here."""
    token_id = token_id or secrets.token_hex(8)
    secret = secrets.token_urlsafe(32)
    return token_id, f"{PREFIX}_{token_id}_{secret}", digest(secret)


def split_token(text: str) -> tuple[str, str] | None:
    """The id and the secret in a token's text; None: that is no token."""
    parts = text.split("_", 2)
    return (parts[1], parts[2]) if len(parts) == 3 and parts[0] == PREFIX else None


def digest(secret: str) -> str:
    """The hash of a long random secret, which needs no slow one."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def same(one: str, other: str) -> bool:
    """Whether two texts are the same, without telling by time how much of them is."""
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode("utf-8", "replace"))


@cache
def _nobody() -> str:
    return _hasher.hash(secrets.token_urlsafe(16))
