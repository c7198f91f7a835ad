"""What can go wrong between workers and their stores (the tree is drawn in mlcd.sync)."""

from __future__ import annotations

from collections.abc import Iterable

from mlcd.errors import MlcdError


class SyncError(MlcdError):
    """Workers could not be brought together."""


class SyncTimeout(SyncError):
    """Some workers were not heard of in time; ranks: which."""

    def __init__(self, ranks: Iterable[int], waited_s: float) -> None:
        self.ranks = tuple(sorted(ranks))
        names = ", ".join(str(rank) for rank in self.ranks)
        super().__init__(
            f"Nothing was heard of rank {names} for {waited_s:g} s.",
            "Start what is missing again and let all workers join the next generation.",
        )


class StaleWorker(SyncError):
    """A newer generation has begun without this process."""


class StoreLost(SyncError):
    """The parameter store cannot be reached any more."""


class StoreFull(SyncError):
    """The parameter store is out of memory."""


class ObjectError(SyncError):
    """The object store said no."""


class ObjectNotFound(ObjectError):
    """There is no object of that key."""


class ObjectExists(ObjectError):
    """Somebody else has written the object first."""


class ObjectRefused(ObjectError):
    """We may not read or write there: the settings or the permissions are wrong, and trying again does not help."""


class ObjectTooLarge(ObjectError):
    """The object has more bytes than were asked for."""

    def __init__(self, key: str, size: int, most: int) -> None:
        super().__init__(f"The object '{key}' has {size:,} bytes, and at most {most:,} are taken.")


class ObjectStoreUnavailable(ObjectError):
    """The object store failed again and again."""
