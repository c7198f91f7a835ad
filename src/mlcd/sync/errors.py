"""Errors between workers and their stores (the tree is drawn in mlcd.sync)."""

from __future__ import annotations

from collections.abc import Iterable

from mlcd.errors import MlcdError


class SyncError(MlcdError):
    """Workers could not synchronise."""


class SyncTimeout(SyncError):
    """Some workers did not come in time; `ranks` are the missing ones."""

    def __init__(self, ranks: Iterable[int], waited_s: float) -> None:
        self.ranks = tuple(sorted(ranks))
        names = ", ".join(str(rank) for rank in self.ranks)
        super().__init__(
            f"Nothing was heard of rank {names} for {waited_s:g} s.",
            "Restart the missing workers and let all workers join the next generation.",
        )


class StaleWorker(SyncError):
    """A newer generation has begun without this process."""


class StoreLost(SyncError):
    """The parameter store cannot be reached any more."""


class StoreFull(SyncError):
    """The parameter store is out of memory."""


class ObjectError(SyncError):
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
