"""What a database's errors mean, in plain words: translated here once, shown without passwords."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import URL
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from mlcd.errors import StoreError


@dataclass(frozen=True)
class Fault:
    """A kind of trouble: what is the matter, and what to do next."""

    what: str
    hint: str


FULL = Fault("the disk is full", "Free some space and try again; what was written before is safe.")
LOCKED = Fault("another process holds it locked", "Wait a little and try again, or end the process that uses it.")
DAMAGED = Fault(
    "the file is damaged or not an mlcd database",
    "Move the file away and try again, or name another one in MLCD_STORE.",
)
FORBIDDEN = Fault(
    "it may not be opened or written", "Check the owner and the permissions of the file and of its folder."
)
DISK = Fault("the disk does not work", "Check the disk and its free space; a network disk will not do.")
UNREACHABLE = Fault("the server cannot be reached", "Check MLCD_STORE, and that the server runs and lets you in.")
REFUSED = Fault("the server refused the login", "Check the user, the password and the database in MLCD_STORE.")
CROWDED = Fault("it has no free connection", "Try again, or allow more connections.")
CLASHED = Fault("two changes got into each other's way", "Try again.")
UNKNOWN = Fault("something unexpected went wrong", "The first line of the database's own message is above.")

_SQLITE = {  # by the start of the error's name
    "SQLITE_FULL": FULL,
    "SQLITE_BUSY": LOCKED,
    "SQLITE_LOCKED": LOCKED,
    "SQLITE_CORRUPT": DAMAGED,
    "SQLITE_NOTADB": DAMAGED,
    "SQLITE_CANTOPEN": FORBIDDEN,
    "SQLITE_READONLY": FORBIDDEN,
    "SQLITE_PERM": FORBIDDEN,
    "SQLITE_AUTH": FORBIDDEN,
    "SQLITE_IOERR": DISK,
}
_POSTGRES = {  # by the start of the SQLSTATE
    "53100": FULL,
    "53300": CROWDED,
    "55P03": LOCKED,
    "57014": LOCKED,
    "28": REFUSED,
    "3D000": REFUSED,
    "42501": FORBIDDEN,
    "40": CLASHED,
    "57P": UNREACHABLE,
    "08": UNREACHABLE,
}


@contextmanager
def translated(url: URL) -> Iterator[None]:
    """Let no error of the database out but as a StoreError."""
    try:
        yield
    except SQLAlchemyError as error:
        raise _store_error(url, error) from error


def shown(url: URL) -> str:
    """The URL without what must not be seen."""
    kept = {key: value for key, value in url.query.items() if "pass" not in key.lower()}
    return url.set(query=kept).render_as_string(hide_password=True)


def _store_error(url: URL, error: SQLAlchemyError) -> StoreError:
    fault = _fault(error)
    own = "" if fault is not UNKNOWN else f" ({_first_line(error)})"
    return StoreError(f"The database {shown(url)} cannot be used: {fault.what}{own}.", fault.hint)


def _fault(error: SQLAlchemyError) -> Fault:
    if isinstance(error, PoolTimeoutError):
        return CROWDED
    if not isinstance(error, DBAPIError):
        return UNKNOWN
    name = getattr(error.orig, "sqlite_errorname", None)
    if name:
        return _starting(_SQLITE, name)
    state = getattr(error.orig, "sqlstate", None)
    if state:
        return _starting(_POSTGRES, state)
    return _stateless(error)


def _stateless(error: DBAPIError) -> Fault:
    """A login that fails comes without a state from libpq; so does a server that is not there."""
    text = str(error.orig)
    if "authentication failed" in text or "does not exist" in text or "no password supplied" in text:
        return REFUSED
    return UNREACHABLE if type(error.orig).__name__ in ("OperationalError", "ConnectionTimeout") else UNKNOWN


def _starting(faults: dict[str, Fault], code: str) -> Fault:
    return next((fault for start, fault in faults.items() if code.startswith(start)), UNKNOWN)


def _first_line(error: SQLAlchemyError) -> str:
    cause = error.orig if isinstance(error, DBAPIError) else error
    return f"{type(cause).__name__}: {str(cause).strip().splitlines()[0] if str(cause).strip() else 'no message'}"
