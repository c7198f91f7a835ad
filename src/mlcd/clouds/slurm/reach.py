"""The way to a node of an allocation: files in the shared folder, and commands that the host on the node runs."""

from __future__ import annotations

import base64
import json
import shlex
import time
import uuid
from pathlib import Path
from typing import Any

from mlcd.clouds.remote.base import CommandResult, Reach, UnreachableError
from mlcd.errors import CloudError

LOOK_SECONDS = 0.1
UNPACK_SECONDS = 3600.0


class SlurmReach:
    """See mlcd.clouds.remote.base.Reach. The host (host.py) runs on the node; the login node has its files."""

    def __init__(self, login: Reach, base: str, name: str) -> None:
        self._login = login
        self._name = name
        self.base = base

    def run(self, command: str, stdin: bytes = b"", seconds: float = 60.0) -> CommandResult:
        """Have the host run a command for bash."""
        question = f"{uuid.uuid4().hex}.json"
        asked = {"command": command, "stdin": base64.b64encode(stdin).decode(), "seconds": seconds}
        self._login.write(f"{self.base}/in/{question}", json.dumps(asked).encode())
        answer = self._answer(f"{self.base}/out/{question}", seconds)
        return CommandResult(int(answer["code"]), str(answer["output"]))

    def put(self, archive: Path, folder: str) -> None:
        """Unpack an archive; a folder that is the node's own gets it by way of the shared one."""
        if folder.startswith(f"{self.base}/"):
            self._login.put(archive, folder)
            return
        there = f"{self.base}/{uuid.uuid4().hex}"
        self._login.put(archive, there)
        where, packed = shlex.quote(folder), shlex.quote(there)
        copy = f"mkdir -p {where} && cp -a {packed}/. {where}/; code=$?; rm -rf {packed}; exit $code"
        ran = self.run(copy, seconds=UNPACK_SECONDS)
        if ran.code:
            raise CloudError(f"{self._name} could not unpack what was sent: {ran.output.strip()[-500:]}")

    def read(self, path: str, offset: int = 0, most: int = 4 << 20) -> bytes | None:
        """The content of a file from there on; None: no such file."""
        return self._login.read(path, offset, most)

    def write(self, path: str, content: bytes) -> None:
        """Write a small file such that no one ever reads half of it."""
        self._login.write(path, content)

    def fetch(self, path: str, target: Path, most: int) -> None:
        """Copy a file from there to here, and no more than so many bytes of it."""
        self._login.fetch(path, target, most)

    def close(self) -> None:
        """The way to the login node is everybody's."""

    def _answer(self, path: str, seconds: float) -> dict[str, Any]:
        give_up_at = time.monotonic() + seconds
        while time.monotonic() < give_up_at:
            text = self._login.read(path)
            if text is not None:
                return dict(json.loads(text))
            time.sleep(LOOK_SECONDS)
        raise UnreachableError(f"{self._name} does not answer.")
