"""A function service in a test's folder, and small functions for it."""

from __future__ import annotations

import io
import os
import signal
import time
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from mlcd.clouds.tasks.processes import birth
from mlcd_functions.service.starting import ServiceSettings, service_url

PATIENCE_SECONDS = 60.0


class Service:
    """The service of one folder, with boto3's own client to it."""

    def __init__(self, root: Path, **settings: Any) -> None:
        self.root = root
        self.settings = ServiceSettings(**{"idle_seconds": 30.0, **settings})
        self.url = service_url(root, self.settings)
        self.client = boto3.client(
            "lambda",
            endpoint_url=self.url,
            region_name="us-east-1",
            aws_access_key_id="none",
            aws_secret_access_key="none",
            config=Config(retries={"total_max_attempts": 1}, read_timeout=PATIENCE_SECONDS),
        )

    def create(self, name: str, code: str, **settings: Any) -> None:
        """A function whose module is `code`, with a handler by that name."""
        self.client.create_function(
            FunctionName=name,
            Runtime="python3.11",
            Role="arn:aws:iam::000000000000:role/none",
            Handler="module.handle",
            Code={"ZipFile": zipped({"module.py": code})},
            **{"MemorySize": 256, "Timeout": 30, **settings},
        )

    def invoke(self, name: str, payload: bytes = b"{}", **how: Any) -> dict[str, Any]:
        """Boto3's answer, with the payload read."""
        answer = self.client.invoke(FunctionName=name, Payload=payload, LogType="Tail", **how)
        return {**answer, "Payload": answer["Payload"].read()}

    @property
    def pid(self) -> int:
        """Of the service's process."""
        import json

        return int(json.loads((self.root / "service.json").read_text())["pid"])

    def end(self) -> None:
        """End it, and wait for its guard to clear up."""
        pid = self.pid
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        wait_until(lambda: not birth(pid))
        wait_until(lambda: not (self.root / "environments").exists())


def zipped(files: dict[str, str]) -> bytes:
    """These files as a zip."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return data.getvalue()


def wait_until(condition: Callable[[], bool]) -> None:
    """Poll until it is so."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not come in time"
        time.sleep(0.02)
