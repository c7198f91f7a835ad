"""Asks the bridge (bridge.py), starts it, and starts another one when it has ended."""

from __future__ import annotations

import json
import select
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from mlcd.errors import CloudError

ANSWER_SECONDS = 45.0  # the first answer waits for a connection


class BridgeClient:
    """The other process; it ends with this one."""

    def __init__(self, options: Mapping[str, Any], log: Path) -> None:
        self._options = dict(options)
        self._log = log
        self._process: subprocess.Popen[str] | None = None
        self._turn = threading.Lock()

    def ask(self, question: str, **more: str) -> Any:
        """What the cluster says; CloudError where it says nothing."""
        with self._turn:
            reply = self._exchange({"ask": question, **more})
        if "error" in reply:
            raise CloudError(reply["error"], reply["hint"])
        return reply["answer"]

    def close(self) -> None:
        """End it."""
        with self._turn:
            self._end()

    def _exchange(self, question: dict[str, str]) -> dict[str, Any]:
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(question) + "\n")
            process.stdin.flush()
            ready, _, _ = select.select([process.stdout], [], [], ANSWER_SECONDS)
            line = process.stdout.readline() if ready else ""
            return dict(json.loads(line))
        except (OSError, ValueError) as error:  # it died, or does not answer
            self._end()
            raise CloudError(
                f"The Ray cluster at '{self._options['address']}' does not answer.", f"See {self._log}."
            ) from error

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None or self._process.poll() is not None:
            self._log.parent.mkdir(parents=True, exist_ok=True)
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "mlcd.clouds.ray.bridge", json.dumps(self._options)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                    start_new_session=True,
                )
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(OSError):
            if process.stdin is not None:
                process.stdin.close()
        try:
            process.wait(timeout=3.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()
