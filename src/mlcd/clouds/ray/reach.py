"""The way to a node of a Ray cluster: calls to the actor that mlcd has there."""

from __future__ import annotations

import shlex
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mlcd.clouds.remote.base import CommandResult, UnreachableError
from mlcd.errors import CloudError

FILE_SECONDS = 15.0
PART_BYTES = 4 << 20


class RayReach:
    """A Host on its node."""

    def __init__(self, ray: Any, find: Callable[[], Any], base: str, name: str) -> None:
        self._ray = ray
        self._find = find
        self._name = name
        self._actor: Any = None
        self.base = base

    def run(self, command: str, stdin: bytes = b"", seconds: float = 60.0) -> CommandResult:
        """Run a command for bash there."""
        code, output = self._ask("run", command, stdin, seconds, seconds=seconds + FILE_SECONDS)
        return CommandResult(code, output.decode(errors="replace"))

    def put(self, archive: Path, folder: str) -> None:
        """Send an archive in parts and unpack it there."""
        there = f"{self.base}/in-{uuid.uuid4().hex[:8]}.tgz"
        with archive.open("rb") as file:
            while part := file.read(PART_BYTES):
                self._ask("append", there, part)
        where, packed = shlex.quote(folder), shlex.quote(there)
        ran = self.run(
            f"mkdir -p {where} && tar -xzf {packed} -C {where}; code=$?; rm -f {packed}; exit $code",
            b"",
            3600,
        )
        if ran.code:
            raise CloudError(f"{self._name} could not unpack what was sent: {ran.output.strip()[-500:]}")

    def read(self, path: str, offset: int = 0, most: int = PART_BYTES) -> bytes | None:
        """The content of a file from there on; None: no such file."""
        content: bytes | None = self._ask("read", path, offset, most)
        return content

    def write(self, path: str, content: bytes) -> None:
        """Write a small file such that no one ever reads half of it."""
        self._ask("write", path, content)

    def fetch(self, path: str, target: Path, most: int) -> None:
        """Copy a file from there to here, in parts, and no more than so many bytes of it."""
        offset = 0
        with target.open("wb") as file:
            while offset <= most and (part := self.read(path, offset)):
                file.write(part)
                offset += len(part)

    def close(self) -> None:
        """Nothing to let go of."""

    def _ask(self, method: str, *arguments: Any, seconds: float = FILE_SECONDS) -> Any:
        try:
            self._actor = self._actor or self._find()
            return self._ray.get(getattr(self._actor, method).remote(*arguments), timeout=seconds)
        except self._ray.exceptions.RayTaskError as error:  # it answers: the call itself failed
            raise CloudError(f"{self._name}: {error.cause}") from error
        except (self._ray.exceptions.RayError, ConnectionError, TimeoutError, ValueError) as error:
            raise UnreachableError(f"{self._name} does not answer: {type(error).__name__}") from error
