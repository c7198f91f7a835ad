"""The way into a pod: `kubectl exec`."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

from mlcd.clouds.kubernetes.kubectl import Kubectl
from mlcd.clouds.remote.base import Ran, UnreachableError
from mlcd.errors import CloudError

FILE_SECONDS = 20.0
FETCH_SECONDS = 6 * 3600.0
_NO_FILE = 44
# What kubectl itself says, as opposed to the command in the pod.
_KUBECTLS_OWN = ("error: ", "Error from server", "Unable to connect", "The connection to the server")


class PodReach:
    """Commands in the one container of a pod."""

    def __init__(self, kubectl: Kubectl, pod: str, base: str) -> None:
        self._kubectl = kubectl
        self._pod = pod
        self.base = base

    def run(self, command: str, stdin: bytes = b"", seconds: float = 60.0) -> Ran:
        """Run a command for bash there."""
        done = self._exec(command, stdin, seconds)
        return Ran(done.returncode, (done.stdout + done.stderr).decode(errors="replace"))

    def put(self, archive: Path, folder: str) -> None:
        """Unpack a gzipped tar archive into a folder there."""
        where = shlex.quote(folder)
        done = self._exec(f"mkdir -p {where} && tar -xzf - -C {where}", archive.read_bytes(), FETCH_SECONDS)
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip()[-500:]
            raise CloudError(f"Pod {self._pod} could not unpack what was sent: {said}")

    def read(self, path: str, offset: int = 0, most: int = 4 << 20) -> bytes | None:
        """The content of a file from there on; None: no such file."""
        file = shlex.quote(path)
        command = f"[ -f {file} ] || exit {_NO_FILE}; tail -c +{offset + 1} {file} | head -c {most}"
        done = self._exec(command, b"", FILE_SECONDS)
        return None if done.returncode == _NO_FILE else self._well(done)

    def write(self, path: str, content: bytes) -> None:
        """Write a small file such that no one ever reads half of it."""
        file = shlex.quote(path)
        self._well(self._exec(f"cat > {file}.part && mv {file}.part {file}", content, FILE_SECONDS))

    def fetch(self, path: str, target: Path) -> None:
        """Copy a file from there to here."""
        words = self._kubectl.arguments("exec", "-i", self._pod, "--", "cat", path)
        with target.open("wb") as file:
            done = subprocess.run(
                words, stdout=file, stderr=subprocess.PIPE, check=False, timeout=FETCH_SECONDS
            )
        if done.returncode:
            raise UnreachableError(f"Pod {self._pod}: {done.stderr.decode(errors='replace').strip()[-300:]}")

    def close(self) -> None:
        """Nothing to let go of."""

    def _exec(self, command: str, stdin: bytes, seconds: float) -> subprocess.CompletedProcess[bytes]:
        try:
            done = self._kubectl.run(
                "exec", "-i", self._pod, "--", "bash", "-c", command, stdin=stdin, seconds=seconds
            )
        except subprocess.TimeoutExpired as error:
            raise UnreachableError(f"Pod {self._pod} does not answer.") from error
        said = done.stderr.decode(errors="replace").strip()
        if done.returncode == 1 and said.startswith(_KUBECTLS_OWN):
            raise UnreachableError(f"Pod {self._pod} does not answer: {said[-300:]}")
        return done

    def _well(self, done: subprocess.CompletedProcess[bytes]) -> bytes:
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip()[-300:]
            raise UnreachableError(f"Pod {self._pod} could not be read or written: {said}")
        return done.stdout
