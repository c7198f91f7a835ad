"""An object store that counts what is asked of it: S3 bills every request. Runs inside the function, too."""

from __future__ import annotations

from pathlib import Path

from mlcd_functions.objects.base import ObjectStore

PART_BYTES = 5 << 20  # of a larger object, which goes up in parts


class CountedObjects:
    """The same store; reads and writes as S3 bills them: listing costs what writing does, deleting nothing."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects
        self.url = objects.url
        self.reads = 0
        self.writes = 0

    def get(self, key: str, most: int | None = None) -> bytes:
        self.reads += 1
        return self._objects.get(key, most)

    def get_version(self, key: str) -> tuple[bytes, str]:
        self.reads += 1
        return self._objects.get_version(key)

    def put(self, key: str, data: bytes, *, if_absent: bool = False, if_version: str = "") -> None:
        self.writes += _uploads(len(data))
        self._objects.put(key, data, if_absent=if_absent, if_version=if_version)

    def keys(self, prefix: str = "") -> list[str]:
        found = self._objects.keys(prefix)
        self.writes += 1 + len(found) // 1000
        return found

    def exists(self, key: str) -> bool:
        self.reads += 1
        return self._objects.exists(key)

    def delete(self, key: str) -> None:
        self._objects.delete(key)

    def upload(self, path: Path, key: str) -> None:
        self.writes += _uploads(path.stat().st_size)
        self._objects.upload(path, key)

    def download(self, key: str, path: Path, most: int | None = None) -> None:
        self.reads += 1
        self._objects.download(key, path, most)


def _uploads(size: int) -> int:
    """One request, or one for each part with one to begin and one to end."""
    return 1 if size <= PART_BYTES else 2 + -(-size // PART_BYTES)
