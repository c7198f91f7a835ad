"""The way into a pod: `kubectl exec`, one that stays open for small files and one for each command or archive."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import IO, Any

from mlcd.clouds.kubernetes.errors import CredentialsError, in_words, kind_of
from mlcd.clouds.kubernetes.kubectl import Kubectl
from mlcd.clouds.kubernetes.manifests import CONTAINER
from mlcd.clouds.kubernetes.retry_limit import RetryLimit
from mlcd.clouds.kubernetes.session import SERVER, BrokenSessionError, Session
from mlcd.clouds.remote.base import CommandResult, RefusedError, UnreachableError
from mlcd.errors import CloudError, NoCapacityError, UserError

FILE_SECONDS = 20.0
FETCH_SECONDS = 6 * 3600.0
_NO_COMMAND_CODE = 127


class PodReach:
    """Commands and files in our container of a pod."""

    def __init__(self, kubectl: Kubectl, pod: str, base: str, python: str) -> None:
        self._kubectl = kubectl
        self._pod = pod
        self._python = python
        self._credentials = RetryLimit()
        self._session = Session(kubectl.arguments(*self._words(python, "-u", "-c", SERVER)))
        self.base = base

    def run(self, command: str, stdin: bytes = b"", seconds: float = 60.0) -> CommandResult:
        """Run a command for bash there."""
        done = self._exec(command, stdin, seconds)
        return CommandResult(done.returncode, (done.stdout + done.stderr).decode(errors="replace"))

    def put(self, archive: Path, folder: str) -> None:
        """Unpack a gzipped tar archive into a folder there, as it is read."""
        where = shlex.quote(folder)
        with archive.open("rb") as stream:
            done = self._exec(f"mkdir -p {where} && tar -xzf - -C {where}", stream, FETCH_SECONDS)
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip()[-500:]
            raise CloudError(f"Pod {self._pod} could not unpack what was sent: {said}")

    def read(self, path: str, offset: int = 0, most: int = 4 << 20) -> bytes | None:
        """The content of a file from there on; None: no such file."""
        head, data = self._ask({"path": path, "offset": offset, "most": most})
        return None if head.get("missing") else data

    def write(self, path: str, content: bytes) -> None:
        """Write a small file such that no one ever reads half of it."""
        self._ask({"path": path, "content": content.decode("latin-1")})

    def fetch(self, path: str, target: Path, most: int) -> None:
        """Copy a file from there to here, and no more than so many bytes of it."""
        words = self._kubectl.arguments(*self._words("head", "-c", str(most + 1), path))
        with target.open("wb") as file:
            done = subprocess.run(words, stdout=file, stderr=subprocess.PIPE, check=False, timeout=FETCH_SECONDS)
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip()
            self._refuse(done.returncode, said)
            raise CloudError(f"Pod {self._pod} could not send {path}: {said[-300:]}")

    def close(self) -> None:
        """Let go of the session; what runs there goes on."""
        self._session.close()

    def _words(self, *command: str) -> list[str]:
        return ["exec", "--stdin", "--container", CONTAINER, self._pod, "--", *command]

    def _exec(self, command: str, stdin: bytes | IO[bytes], seconds: float) -> subprocess.CompletedProcess[bytes]:
        try:
            done = self._kubectl.run(*self._words("bash", "-c", command), stdin=stdin, seconds=seconds)
        except subprocess.TimeoutExpired as error:
            raise UnreachableError(f"Pod {self._pod} does not answer.") from error
        self._refuse(done.returncode, done.stderr.decode(errors="replace").strip())
        return done

    def _ask(self, question: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        try:
            head, data = self._session.ask(question, FILE_SECONDS)
        except BrokenSessionError as error:
            if error.code == _NO_COMMAND_CODE or _lacks_command(self._python, error.said):
                raise self._no_python(error.said) from error
            self._refuse(error.code or 1, error.said)
            raise UnreachableError(f"Pod {self._pod} does not answer: {error.said[-300:]}") from error
        if head.get("error"):
            raise UnreachableError(f"Pod {self._pod} could not be read or written: {head['error']}")
        self._credentials.renew()
        return head, data

    def _refuse(self, code: int, said: str) -> None:
        """Raise where kubectl itself failed, and not the command in the pod: of that it tells the exit code."""
        if code == 1 and f"command terminated with exit code {code}" not in said:
            raise refusal(self._pod, said, self._credentials)
        self._credentials.renew()

    def _no_python(self, said: str) -> RefusedError:
        return RefusedError(
            f"The image of pod {self._pod} has no '{self._python}': {said[-300:]}",
            "Take an image with Python 3.9 or newer (kubernetes.image), or say where it is (kubernetes.python).",
        )


def refusal(pod: str, said: str, credentials: RetryLimit) -> CloudError:
    """What kubectl says of a pod that it could not enter: a right that is missing, or no answer for now.

    Credentials that cannot be had are no answer, as long as there is patience with them.
    """
    error = in_words("run commands in its pods (kubectl exec)", said)
    lasting = isinstance(error, UserError | NoCapacityError) and kind_of(said) != "NotFound"
    if isinstance(error, CredentialsError):
        lasting = credentials.ends()
    if lasting:
        return RefusedError(error.message, error.hint)
    return UnreachableError(f"Pod {pod} does not answer: {said[-300:]}")


def _lacks_command(command: str, said: str) -> bool:
    """Whether runtimes say that the image does not have this command; a file of their own may be away for a moment."""
    name = rf"(?<![\w./-])[\"'`]?{re.escape(command)}[\"'`]?"
    runc = rf"{name}: (?:stat \S+: )?(?:executable file not found|no such file or directory)"
    return re.search(rf"{runc}|executable file {name} not found", said) is not None
