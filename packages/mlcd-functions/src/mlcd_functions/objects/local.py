"""The object store in a folder: each object a file, which appears in one atomic step."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from mlcd.errors import UserError
from mlcd.worker.trees import files_inside, is_file_inside
from mlcd_functions.objects.errors import (
    ObjectError,
    ObjectExists,
    ObjectNotFound,
    ObjectRefused,
    ObjectTooLarge,
)

_OWN = ".mlcd"  # drafts and the lock: no keys
_REFUSED = (errno.EACCES, errno.EPERM, errno.EROFS)


class LocalObjects:
    """Objects as files of a folder."""

    def __init__(self, folder: Path) -> None:
        self.url = folder.absolute().as_uri()
        self._folder = folder
        with _translated("this folder"):
            (folder / _OWN).mkdir(parents=True, exist_ok=True)

    def get(self, key: str, most: int | None = None) -> bytes:
        with _translated(key):
            return self._readable(key, most).read_bytes()

    def get_version(self, key: str) -> tuple[bytes, str]:
        data = self.get(key)
        return data, hashlib.sha256(data).hexdigest()

    def put(self, key: str, data: bytes, *, if_absent: bool = False, if_version: str = "") -> None:
        with _translated(key), self._draft() as draft:
            draft.write(data)
            self._commit(draft, key, if_absent, if_version)

    def keys(self, prefix: str = "") -> list[str]:
        with _translated(prefix):
            found = (path.relative_to(self._folder).as_posix() for path in files_inside(self._folder))
            return sorted(key for key in found if key.startswith(prefix) and not key.startswith(f"{_OWN}/"))

    def exists(self, key: str) -> bool:
        with _translated(key):
            return self._path(key).is_file()

    def delete(self, key: str) -> None:
        with _translated(key), contextlib.suppress(FileNotFoundError, NotADirectoryError):
            self._path(key).unlink()

    def upload(self, path: Path, key: str) -> None:
        with _translated(key), path.open("rb") as source, self._draft() as draft:
            shutil.copyfileobj(source, draft, 1 << 20)
            self._commit(draft, key, if_absent=False, if_version="")

    def download(self, key: str, path: Path, most: int | None = None) -> None:
        with _translated(key):
            draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}.draft")
            try:
                shutil.copyfile(self._readable(key, most), draft)
                draft.replace(path)
            finally:
                draft.unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        parts = key.split("/")
        if not key or any(part in ("", ".", "..") for part in parts) or parts[0] == _OWN:
            raise UserError(f"'{key}' is not a valid object key.", "Use names with slashes between them.")
        return self._folder.joinpath(*parts)

    def _readable(self, key: str, most: int | None) -> Path:
        """The file of an object; what a link in its place leads to outside the folder is none."""
        path = self._path(key)
        if not is_file_inside(path, Path(os.path.realpath(self._folder))):
            raise FileNotFoundError(key)
        if most is not None and (size := path.stat().st_size) > most:
            raise ObjectTooLarge(key, size, most)
        return path

    @contextlib.contextmanager
    def _draft(self) -> Iterator[IO[bytes]]:
        with tempfile.NamedTemporaryFile(dir=self._folder / _OWN, delete=False) as draft:
            try:
                yield draft
            finally:
                Path(draft.name).unlink(missing_ok=True)

    def _commit(self, draft: IO[bytes], key: str, if_absent: bool, if_version: str) -> None:
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.flush()
        os.fsync(draft.fileno())
        if if_absent:
            os.link(draft.name, path)
        elif if_version:
            self._replace_version(Path(draft.name), path, key, if_version)
        else:
            Path(draft.name).replace(path)

    def _replace_version(self, draft: Path, path: Path, key: str, version: str) -> None:
        with (self._folder / _OWN / "lock").open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.is_file() or self.get_version(key)[1] != version:
                raise FileExistsError(key)
            draft.replace(path)


@contextlib.contextmanager
def _translated(key: str) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, IsADirectoryError) as error:
        raise ObjectNotFound(f"There is no object '{key}'.") from error
    except FileExistsError as error:
        raise ObjectExists(f"Somebody else has written '{key}' first.") from error
    except OSError as error:
        kind = ObjectRefused if error.errno in _REFUSED else ObjectError
        raise kind(f"The object '{key}' cannot be read or written: {error}.") from error
