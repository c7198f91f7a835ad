"""One `kubectl exec` that stays open: small files of a pod are read and written through it, one after the other."""

from __future__ import annotations

import json
import os
import select
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from typing import IO, Any

from mlcd.clouds.kubernetes.kubectl import no_kubectl
from mlcd.clouds.received import is_count

# Runs in the pod. A question is a line of JSON; an answer is a line of JSON, and as many bytes as that says.
SERVER = """
import json, os, sys
def answer(ask):
    path = ask["path"]
    if "content" in ask:
        with open(path + ".part", "wb") as file:
            file.write(ask["content"].encode("latin-1"))
        os.replace(path + ".part", path)
        return {}, b""
    if not os.path.isfile(path):
        return {"missing": True}, b""
    with open(path, "rb") as file:
        file.seek(ask["offset"])
        return {}, file.read(ask["most"])
for line in sys.stdin.buffer:
    try:
        head, data = answer(json.loads(line))
    except OSError as error:
        head, data = {"error": str(error)}, b""
    sys.stdout.buffer.write(json.dumps(dict(head, bytes=len(data))).encode() + b"\\n" + data)
    sys.stdout.buffer.flush()
"""
_BLOCK = 1 << 16
_MOST_HEAD = 1 << 16  # bytes of the first line of an answer
_PIPE_BYTES = 4096  # that a pipe takes at once when it takes any
_NO_ANSWER = "what it sent is no answer"


class BrokenSessionError(Exception):
    """The session is no more; carries the exit code of kubectl (None: it did not answer in time) and its words."""

    def __init__(self, code: int | None, said: str) -> None:
        super().__init__(said)
        self.code = code
        self.said = said


class Session:
    """Opened when it is first needed, and again after it broke."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._said: IO[bytes] | None = None
        self._buffer = b""
        self._turn = threading.Lock()

    def ask(self, question: dict[str, Any], seconds: float) -> tuple[dict[str, Any], bytes]:
        """The answer's head and its bytes; BrokenSessionError where none comes in time."""
        with self._turn:
            if self._process is not None and self._process.poll() is not None:
                self.close()  # it was cut while nobody asked
            deadline = time.monotonic() + seconds
            self._open()
            try:
                self._send(json.dumps(question).encode() + b"\n", deadline)
                head = _head(self._line(deadline), int(question.get("most", 0)))
                return head, self._bytes(head["bytes"], deadline)
            except (OSError, EOFError, ValueError, RecursionError) as error:
                raise self._broken(str(error)) from error

    def close(self) -> None:
        """End it; what runs in the pod goes on."""
        process, self._process, self._buffer = self._process, None, b""
        if process is not None:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, self._said):
                if stream is not None:
                    stream.close()

    def _open(self) -> None:
        if self._process is not None:
            return
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the session
        try:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said,
                bufsize=0,
                start_new_session=True,
            )
        except FileNotFoundError as error:
            raise no_kubectl(self._command[0]) from error

    def _pipe(self, name: str) -> IO[bytes]:
        """One end of it, unless it was closed meanwhile."""
        stream: IO[bytes] | None = getattr(self._process, name, None)
        if stream is None:
            raise EOFError("it was closed")
        return stream

    def _send(self, data: bytes, deadline: float) -> None:
        while data:
            stream = self._pipe("stdin")
            if not select.select([], [stream], [], max(0.0, deadline - time.monotonic()))[1]:
                raise TimeoutError("it takes no questions")
            data = data[os.write(stream.fileno(), data[:_PIPE_BYTES]) :]

    def _line(self, deadline: float) -> bytes:
        while b"\n" not in self._buffer:
            if len(self._buffer) > _MOST_HEAD:
                raise ValueError(_NO_ANSWER)
            self._receive(deadline)
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _bytes(self, count: int, deadline: float) -> bytes:
        parts, have = [self._buffer], len(self._buffer)
        self._buffer = b""
        while have < count:
            self._receive(deadline)
            parts.append(self._buffer)
            have += len(self._buffer)
            self._buffer = b""
        data = b"".join(parts)
        self._buffer = data[count:]
        return data[:count]

    def _receive(self, deadline: float) -> None:
        stream = self._pipe("stdout")
        if not select.select([stream], [], [], max(0.0, deadline - time.monotonic()))[0]:
            raise TimeoutError("it does not answer")
        block = os.read(stream.fileno(), _BLOCK)
        if not block:
            raise EOFError
        self._buffer += block

    def _broken(self, why: str) -> BrokenSessionError:
        """Close it, and tell what kubectl said."""
        code = self._exit_code()
        said = self._words() or why
        self.close()
        return BrokenSessionError(code, said)

    def _exit_code(self) -> int | None:
        """Of a kubectl that ended by itself."""
        if self._process is None:
            return None
        try:
            return self._process.wait(timeout=1.0)
        except subprocess.TimeoutExpired:
            return None

    def _words(self) -> str:
        if self._said is None or self._said.closed:
            return ""
        self._said.seek(0)
        return self._said.read().decode(errors="replace").strip()


def _head(line: bytes, most: int) -> dict[str, Any]:
    """The head of an answer; ValueError where it is none, or where more follows than was asked for."""
    head = json.loads(line)
    if not isinstance(head, dict) or not is_count(head.get("bytes")) or head["bytes"] > most:
        raise ValueError(_NO_ANSWER)
    return head
