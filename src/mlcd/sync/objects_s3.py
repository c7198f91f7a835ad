"""The object store in S3, or in what speaks its protocol: endpoint, region and keys come from AWS_* in the environment."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from mlcd.errors import MissingExtraError
from mlcd.sync.errors import ObjectError, ObjectExists, ObjectNotFound, ObjectStoreUnavailable

try:
    import obstore
    from obstore import exceptions
    from obstore.store import S3Store
except ImportError as missing:  # pragma: no cover
    raise MissingExtraError("Objects in S3 need obstore.", "pip install 'mlcd[functions]'") from missing

_TIMEOUTS: Any = {
    "timeout": timedelta(minutes=10),
    "connect_timeout": timedelta(seconds=10),
}  # for large objects
_RETRIES: dict[str, Any] = {
    "max_retries": 6,
    "backoff": {"init_backoff": timedelta(seconds=0.1), "max_backoff": timedelta(seconds=5), "base": 2},
    "retry_timeout": timedelta(seconds=60),
}


class S3Objects:
    """Objects of a bucket, below a prefix."""

    retries: Any = _RETRIES

    def __init__(self, url: str) -> None:
        self.url = url
        parts = urlsplit(url)
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
        options: dict[str, Any] = {"endpoint": endpoint} if endpoint else {}
        client: Any = {"allow_http": endpoint.startswith("http://"), **_TIMEOUTS}
        self._store = S3Store(
            parts.netloc,
            prefix=parts.path.strip("/") or None,
            client_options=client,
            retry_config=self.retries,
            **options,
        )

    def get(self, key: str) -> bytes:
        return self.get_version(key)[0]

    def get_version(self, key: str) -> tuple[bytes, str]:
        with _translated(key):
            found = obstore.get(self._store, key)
            return bytes(found.bytes()), str(found.meta["e_tag"])

    def put(self, key: str, data: bytes, *, if_absent: bool = False, if_version: str = "") -> None:
        mode: Any = {"e_tag": if_version} if if_version else "create" if if_absent else "overwrite"
        conditional = if_absent or bool(if_version)
        with _translated(key), _writing(key):
            obstore.put(self._store, key, data, mode=mode, use_multipart=False if conditional else None)

    def keys(self, prefix: str = "") -> list[str]:
        # The service lists by whole path segments: list the folder, then look at the rest of the name.
        folder = prefix.rpartition("/")[0]
        with _translated(prefix):
            pages = obstore.list(self._store, prefix=folder or None)
            return sorted(each["path"] for page in pages for each in page if each["path"].startswith(prefix))

    def exists(self, key: str) -> bool:
        try:
            with _translated(key):
                obstore.head(self._store, key)
        except ObjectNotFound:
            return False
        return True

    def delete(self, key: str) -> None:
        with _translated(key), contextlib.suppress(FileNotFoundError):
            obstore.delete(self._store, key)

    def upload(self, path: Path, key: str) -> None:
        with _translated(key), _writing(key):
            obstore.put(self._store, key, path)

    def download(self, key: str, path: Path) -> None:
        draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}.draft")
        try:
            with _translated(key), draft.open("wb") as file:
                for part in obstore.get(self._store, key).stream(min_chunk_size=8 << 20):
                    file.write(part)
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)


@contextlib.contextmanager
def _translated(key: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise ObjectNotFound(f"There is no object '{key}'.") from error
    except (exceptions.AlreadyExistsError, exceptions.PreconditionError) as error:
        raise ObjectExists(f"Somebody else has written '{key}' first.") from error
    except (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError) as error:
        raise ObjectError(
            f"The object store refuses '{key}'.", "Look at the AWS_* keys and at the bucket's policy."
        ) from error
    except exceptions.GenericError as error:
        raise ObjectStoreUnavailable(f"The object store failed with '{key}': {_first_line(error)}") from error
    except exceptions.BaseError as error:
        raise ObjectError(f"The object store refuses '{key}': {_first_line(error)}") from error


@contextlib.contextmanager
def _writing(key: str) -> Iterator[None]:
    """What is not found while writing is the bucket, or the upload itself."""
    try:
        yield
    except FileNotFoundError as error:
        raise ObjectError(f"The object '{key}' cannot be written: {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]
