"""An execution environment: one process that handles one event at a time, and may be used again.

INIT → IDLE ⇄ BUSY        any of them → gone: its time was up, its memory full, its process ended, or nobody came
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mlcd.clouds.tasks.processes import MARKER, end_marked
from mlcd_functions.service.faults import ApiFault
from mlcd_functions.service.functions import Function
from mlcd_functions.service.isolation import command_in_own_network, take_listeners
from mlcd_functions.service.proxy import Proxy
from mlcd_functions.service.reports import Report
from mlcd_functions.service.runtime import Invocation, RuntimeApi

INIT_SECONDS = 60.0  # to load the handler
_LOOK_SECONDS = 0.05
_INHERITED = ("HOME", "LANG", "LD_LIBRARY_PATH", "VIRTUAL_ENV")
_TAIL_BYTES = 4096


@dataclass(frozen=True)
class Outcome:
    """How an invocation ended: what Invoke answers."""

    payload: bytes
    error: str  # empty, Handled or Unhandled
    log_tail: bytes
    report: Report


class Environment:
    """A process with the function's code, folder and settings."""

    def __init__(self, function: Function, root: Path, isolated: bool = False) -> None:
        self.function = function
        self._isolated = isolated
        self._proxy: Proxy | None = None
        self.id = uuid.uuid4().hex[:12]
        self.folder = root / "environments" / self.id
        self.log = root / "logs" / function.name / f"{self.id}.log"
        self.peak_bytes = 0
        self.idle_since = time.monotonic()
        self.killed_for_memory = False
        self._api: RuntimeApi | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._began = time.monotonic()
        self._init_seconds: float | None = None
        self._init_told = False

    @property
    def pid(self) -> int:
        """Of its first process; 0: not started."""
        return self._process.pid if self._process is not None else 0

    @property
    def alive(self) -> bool:
        """Whether it can take another event."""
        runs = self._process is not None and self._process.poll() is None
        return runs and self._api is not None and not self._api.init_error

    def start(self) -> None:
        """Start the process; the handler is loaded meanwhile."""
        self.folder.mkdir(parents=True)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self._began = time.monotonic()
        command = [sys.executable, "-m", "awslambdaric", self.function.handler]
        if self._isolated:
            self._start_inside(command)
        else:
            self._api = RuntimeApi()
            self._spawn(command, {"AWS_LAMBDA_RUNTIME_API": self._api.address})

    def _start_inside(self, command: list[str]) -> None:
        """Start it in a network of its own, with the Runtime API and the way out inside it."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            self._spawn(command_in_own_network(theirs.fileno(), command), {}, theirs.fileno())
            theirs.close()
            try:
                api, way_out = take_listeners(ours)
            except OSError as error:
                raise ApiFault("ServiceException", 500, f"No network for {self.function.name}: {error}") from error
        self._api, self._proxy = RuntimeApi(api), Proxy(way_out)

    def _spawn(self, command: list[str], more: dict[str, str], *handles: int) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self.function.code,
                env={**self._variables(), **more},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=handles,
            )

    def handle(self, payload: bytes) -> Outcome:
        """Hand it an event and wait for the answer, the end of its time, or the end of the process."""
        request_id = str(uuid.uuid4())
        began_at = time.time()
        offset = self._say(f"START RequestId: {request_id} Version: $LATEST\n")
        api = self._api
        assert api is not None  # it was started
        if problem := self._await_init(api):
            return self._outcome(request_id, began_at, 0.0, problem, "Unhandled", offset)
        deadline = time.time() + self.function.timeout_seconds
        invocation = Invocation(request_id, payload, self.function.arn, deadline)
        began = time.monotonic()
        api.offer(invocation)
        problem = self._await_answer(invocation, began + self.function.timeout_seconds)
        took = time.monotonic() - began
        answer = problem or invocation.answer
        error = "Unhandled" if problem else invocation.error
        return self._outcome(request_id, began_at, took, answer, error, offset)

    def kill(self, for_memory: bool = False) -> None:
        """End its process and all that came of it."""
        self.killed_for_memory = self.killed_for_memory or for_memory
        if self._process is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        end_marked(self.folder, patience_seconds=5.0)

    def close(self) -> None:
        """End it, and leave nothing but its log."""
        self.kill()
        if self._process is not None:
            self._process.wait()
        if self._api is not None:
            self._api.close()
        if self._proxy is not None:
            self._proxy.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _await_init(self, api: RuntimeApi) -> bytes:
        """Wait until the handler is loaded; what is to be answered if it never will be."""
        while not api.ready.wait(_LOOK_SECONDS):
            if api.init_error:
                self.kill()
                return api.init_error
            if not self.alive:
                return self._exit_error()
            if time.monotonic() - self._began > INIT_SECONDS:
                self.kill()
                return _error("Sandbox.Timedout", f"Init timed out after {INIT_SECONDS:.2f} seconds")
        if self._init_seconds is None:
            self._init_seconds = time.monotonic() - self._began
        return b""

    def _await_answer(self, invocation: Invocation, until: float) -> bytes:
        """Wait for the answer; what is to be answered if it does not come."""
        while not invocation.answered.wait(_LOOK_SECONDS):
            if not self.alive:
                return b"" if invocation.answered.is_set() else self._exit_error()
            if time.monotonic() > until:
                self.kill()
                return _error("Sandbox.Timedout", f"Task timed out after {self.function.timeout_seconds:.2f} seconds")
        return b""

    def _exit_error(self) -> bytes:
        code = self._process.wait() if self._process is not None else 1
        how = f"signal: {_signal_name(code)}" if code < 0 else f"exit status {code}"
        kind = "Runtime.OutOfMemory" if self.killed_for_memory else "Runtime.ExitError"
        return _error(kind, f"Runtime exited with error: {how}")

    def _outcome(
        self, request_id: str, began_at: float, took: float, answer: bytes, error: str, offset: int
    ) -> Outcome:
        report = Report(
            request_id=request_id,
            function=self.function.name,
            began_at=began_at,
            seconds=took,
            init_seconds=None if self._init_told else (self._init_seconds or 0.0),
            memory_mb=self.function.memory_mb,
            peak_mb=self._peak_mb(),
            error=answer.decode(errors="replace")[:500] if error else "",
        )
        self._init_told = True
        self._say(f"END RequestId: {request_id}\n{report.line()}")
        return Outcome(answer, error, self._tail(offset), report)

    def _peak_mb(self) -> int:
        used = self.peak_bytes >> 20
        return self.function.memory_mb if self.killed_for_memory else min(used, self.function.memory_mb)

    def _say(self, text: str) -> int:
        """Add to the log; where in it this begins."""
        with self.log.open("ab") as log:
            offset = log.tell()
            log.write(text.encode())
        return offset

    def _tail(self, offset: int) -> bytes:
        with self.log.open("rb") as log:
            log.seek(offset)
            return log.read()[-_TAIL_BYTES:]

    def _variables(self) -> dict[str, str]:
        """What Lambda tells a function, and where this one may write."""
        function = self.function
        kept = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        return {
            **kept,
            **{name: value for name, value in os.environ.items() if name.startswith("AWS_")},
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
            "TZ": ":UTC",
            "TMPDIR": str(self.folder),
            "PYTHONPATH": str(function.code),
            "PYTHONUNBUFFERED": "1",
            "AWS_LAMBDA_FUNCTION_NAME": function.name,
            "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(function.memory_mb),
            "AWS_LAMBDA_LOG_GROUP_NAME": f"/aws/lambda/{function.name}",
            "AWS_LAMBDA_LOG_STREAM_NAME": self.id,
            "LAMBDA_TASK_ROOT": str(function.code),
            "_HANDLER": function.handler,
            **function.variables,
            MARKER: str(self.folder),
        }


def _error(kind: str, message: str) -> bytes:
    return json.dumps({"errorType": kind, "errorMessage": message}).encode()


def _signal_name(code: int) -> str:
    """As Go writes it, which Lambda is made with."""
    return "killed" if -code == signal.SIGKILL else signal.Signals(-code).name.lower()
