"""Errors of an object store (the tree is drawn in mlcd_functions.objects)."""

from __future__ import annotations

from mlcd.errors import MlcdError


class ObjectError(MlcdError):
    """The object store could not do what was asked."""


class ObjectNotFound(ObjectError):
    """There is no object of that key."""


class ObjectExists(ObjectError):
    """Somebody else has written the object first."""


class ObjectRefused(ObjectError):
    """Reading or writing is not allowed: the settings or the permissions are wrong, and a retry does not help."""


class ObjectTooLarge(ObjectError):
    """The object has more bytes than allowed."""

    def __init__(self, key: str, size: int, most: int) -> None:
        super().__init__(f"The object '{key}' has {size:,} bytes; at most {most:,} are allowed.")


class ObjectStoreUnavailable(ObjectError):
    """The object store still fails after several retries."""
