"""A model in a process of its own, seen from outside: a request that exceeds its time limit ends the process."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from mlcd.clouds.tasks.processes import MARKER, end_descendants, end_marked
from mlcd.errors import TaskFailedError, UserError
from mlcd.serving.kinds import Servable
from mlcd.settings import PredictSettings

TAIL_BYTES = 4000
CHUNK_BYTES = 256 * 1024
_PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV")
_THREADS = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "TF_NUM_INTRAOP_THREADS",
    "TF_NUM_INTEROP_THREADS",
)


class ModelProcess:
    """One model, loaded. Not for several threads at once."""

    def __init__(self, servable: Servable, settings: PredictSettings, job_id: str) -> None:
        self._settings = settings
        self._job_id = job_id
        self._folder = tempfile.TemporaryDirectory(prefix="mlcd-model-")
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the process
        self._process = self._start(servable)
        self._ask(b"", settings.start_seconds, "load")

    @property
    def alive(self) -> bool:
        """Whether it can be asked."""
        return self._process.poll() is None

    def predict(self, inputs: Any, dtype: str) -> Any:
        """The model's prediction; UserError: it refuses the inputs, TaskFailedError: it crashed or took too long."""
        body = json.dumps({"inputs": inputs, "dtype": dtype}).encode() + b"\n"
        return self._ask(body, self._settings.request_seconds, "answer").get("outputs")

    def end(self) -> None:
        """End it and all that it started, in whatever session; twice is harmless."""
        if self._process.returncode is None:
            end_descendants(self._process.pid)
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        end_marked(Path(self._folder.name))  # what is left where a model ended its own guard
        for stream in (self._process.stdin, self._process.stdout, self._log):
            if stream is not None:
                _close(stream)
        self._folder.cleanup()

    def _start(self, servable: Servable) -> subprocess.Popen[bytes]:
        settings = self._settings
        limits = {
            "kind": servable.kind.value,
            "path": str(servable.path),
            "memory_bytes": int(settings.memory_gib * 2**30),
            "idle_seconds": settings.idle_seconds,
            "request_seconds": settings.request_seconds,
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "mlcd.serving.server", json.dumps(limits)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            cwd=self._folder.name,
            env=environment(os.environ, settings.threads, self._folder.name),
            start_new_session=True,
        )
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            os.set_blocking(stream.fileno(), False)
        return process

    def _ask(self, body: bytes, seconds: float, verb: str) -> dict[str, Any]:
        line = self._exchange(body, time.monotonic() + seconds)
        if line is None:
            alive = self.alive
            why = f"took more than {seconds:g} s to {verb}" if alive else f"crashed{self._how()}"
            tail = self._tail()
            self.end()
            raise TaskFailedError(f"The model of job {self._job_id} {why}.", "Its log may say why.", tail)
        answer = _parsed(line)
        if answer is None:
            self.end()
            raise TaskFailedError(f"The model of job {self._job_id} sent an answer that is not valid JSON.")
        if "error" in answer:
            raise UserError(f"The model of job {self._job_id} could not {verb}: {answer['error']}")
        return answer

    def _exchange(self, body: bytes, until: float) -> bytes | None:
        """Send it and read one line; None: none came in time, or it was too long, or nobody is there."""
        source, sink = self._process.stdout, self._process.stdin
        assert source is not None
        assert sink is not None
        found, most = bytearray(), int(self._settings.answer_mib * 2**20)
        with selectors.DefaultSelector() as selector:
            selector.register(source, selectors.EVENT_READ)
            if body:
                selector.register(sink, selectors.EVENT_WRITE)
            while (left := until - time.monotonic()) > 0 and len(found) <= most:
                for key, _events in selector.select(left):
                    if key.fileobj is sink:
                        if not (body := _write(sink, body)):
                            selector.unregister(sink)
                    elif chunk := os.read(source.fileno(), CHUNK_BYTES):
                        found += chunk
                        if found.endswith(b"\n"):
                            return bytes(found)
                    else:
                        with suppress(subprocess.TimeoutExpired):  # it has closed its output and goes on
                            self._process.wait(max(0.1, until - time.monotonic()))
                        return None
        return None

    def _how(self) -> str:
        code = self._process.returncode
        return f" ({signal.Signals(-code).name})" if code is not None and code < 0 else f" (exit code {code})"

    def _tail(self) -> str:
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, size - TAIL_BYTES))
        return self._log.read().decode(errors="replace")


def environment(environ: Mapping[str, str], threads: int, home: str) -> dict[str, str]:
    """The environment of a model's process: a few variables of ours, and so no password."""
    kept = {name: environ[name] for name in _PASSED_ON if name in environ}
    counts = dict.fromkeys(_THREADS, str(threads))
    return {
        **kept,
        **counts,
        "HOME": home,
        MARKER: home,
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
    }


def _parsed(line: bytes) -> dict[str, Any] | None:
    """An answer; None: the model has written something else in its place."""
    try:
        answer = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return answer if isinstance(answer, dict) else None


def _write(sink: IO[bytes], body: bytes) -> bytes:
    """Send a piece; gives what is left. A reader that is gone shows on the other pipe."""
    try:
        return body[os.write(sink.fileno(), body[:CHUNK_BYTES]) :]
    except BlockingIOError:
        return body
    except BrokenPipeError:
        return b""


def _close(stream: IO[bytes]) -> None:
    with suppress(BrokenPipeError):
        stream.close()
