"""The object store: code, data and checkpoints, in a local folder or in S3."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

from mlcd.errors import UserError


class ObjectStore(Protocol):
    """Objects by key. A key is a path such as 'checkpoints/7/state.pt'.

    Every object is written as a whole or not at all. What fails for a passing reason is tried again; what still fails is
    an ObjectStoreUnavailable. Deleting, and writing the same again, repeats safely.
    """

    url: str

    def get(self, key: str, most: int | None = None) -> bytes:
        """The object's bytes; ObjectNotFound where there is none, ObjectTooLarge where it has more than `most`."""

    def get_version(self, key: str) -> tuple[bytes, str]:
        """The object's bytes, and what put(if_version=…) takes."""

    def put(self, key: str, data: bytes, *, if_absent: bool = False, if_version: str = "") -> None:
        """Write an object; with a condition that does not hold, ObjectExists and nothing is written."""

    def keys(self, prefix: str = "") -> list[str]:
        """The sorted keys that start so."""

    def exists(self, key: str) -> bool:
        """Whether there is such an object."""

    def delete(self, key: str) -> None:
        """Remove an object; no error where there is none."""

    def upload(self, path: Path, key: str) -> None:
        """Write a file's content as an object."""

    def download(self, key: str, path: Path, most: int | None = None) -> None:
        """Write an object's content as a file, whole or not at all; ObjectTooLarge where it has more than `most`."""


def open_object_store(url: str) -> ObjectStore:
    """The store of a URL: file:///folder or s3://bucket/prefix, whose endpoint and keys are in AWS_* as everywhere."""
    parts = urlsplit(url)
    if parts.scheme == "file" and parts.path:
        from mlcd_functions.objects.local import LocalObjects

        return LocalObjects(Path(unquote(parts.path)))
    if parts.scheme == "s3" and parts.netloc:
        from mlcd_functions.objects.s3 import S3Objects

        return S3Objects(url)
    raise UserError(f"'{url}' is not an object store.", "Use file:///FOLDER or s3://BUCKET/PREFIX.")
