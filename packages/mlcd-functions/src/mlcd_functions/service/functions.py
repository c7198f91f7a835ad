"""The functions that the service knows: their settings, and where their code is unpacked."""

from __future__ import annotations

import base64
import binascii
import hashlib
import io
import math
import shutil
import threading
import time
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mlcd_functions.service.faults import conflict, invalid, not_found

LEAST_DISK_MB = 512
MOST_DISK_MB = 10240
LEAST_MEMORY_MB = 128
MOST_MEMORY_MB = 10240
MOST_SECONDS = 900
ARN = "arn:aws:lambda:us-east-1:000000000000:function:"


@dataclass(frozen=True)
class Function:
    """A function as CreateFunction and its like have made it."""

    name: str
    handler: str
    code: Path  # unpacked
    code_sha256: str
    code_bytes: int
    memory_mb: int = LEAST_MEMORY_MB
    timeout_seconds: int = 3
    disk_mb: int = LEAST_DISK_MB  # as asked for; here a function has the disk of this computer
    network: Mapping[str, Any] = field(default_factory=dict)  # likewise
    variables: Mapping[str, str] = field(default_factory=dict)
    role: str = ""
    runtime: str = ""
    description: str = ""
    reserved: int | None = None  # concurrency kept for it, and the most it may have
    revision: int = 1  # environments of an older one are not used again
    modified_at: float = 0.0

    @property
    def arn(self) -> str:
        """Its name in full."""
        return ARN + self.name

    def configuration(self) -> dict[str, Any]:
        """As the API shows it."""
        return {
            "FunctionName": self.name,
            "FunctionArn": self.arn,
            "Runtime": self.runtime,
            "Role": self.role,
            "Handler": self.handler,
            "Description": self.description,
            "CodeSize": self.code_bytes,
            "CodeSha256": self.code_sha256,
            "Timeout": self.timeout_seconds,
            "MemorySize": self.memory_mb,
            "EphemeralStorage": {"Size": self.disk_mb},
            "VpcConfig": dict(self.network),
            "LastModified": time.strftime("%Y-%m-%dT%H:%M:%S.000+0000", time.gmtime(self.modified_at)),
            "Version": "$LATEST",
            "Environment": {"Variables": dict(self.variables)},
            "PackageType": "Zip",
            "State": "Active",
            "LastUpdateStatus": "Successful",
            "RevisionId": str(self.revision),
        }


class Functions:
    """All functions, by name."""

    def __init__(self, folder: Path, most_seconds: int = MOST_SECONDS, most_memory_mb: int = MOST_MEMORY_MB) -> None:
        self._folder = folder
        self._most_seconds = most_seconds
        self._most_memory_mb = most_memory_mb
        self._known: dict[str, Function] = {}
        self._made_at = -math.inf
        self._lock = threading.Lock()

    def create(self, asked: Mapping[str, Any]) -> Function:
        """A new one."""
        name = short_name(str(asked.get("FunctionName", "")))
        with self._lock:
            if name in self._known:
                raise conflict(ARN + name)
        path, digest, size = self._unpack(asked.get("Code") or {})
        fresh = Function(name, str(asked.get("Handler", "")), path, digest, size, modified_at=time.time())
        function = self._configured(fresh, asked)
        with self._lock:
            if name in self._known:
                raise conflict(ARN + name)
            self._known[name] = function
            self._made_at = time.monotonic()
        return function

    @property
    def quiet_seconds(self) -> float:
        """How long none has been made: whoever makes one is about to invoke it."""
        return time.monotonic() - self._made_at

    def get(self, name: str) -> Function:
        """The one by that name."""
        with self._lock:
            function = self._known.get(short_name(name))
        if function is None:
            raise not_found(ARN + short_name(name))
        return function

    def all(self) -> list[Function]:
        """In order of their names."""
        with self._lock:
            return [self._known[name] for name in sorted(self._known)]

    def configure(self, name: str, asked: Mapping[str, Any]) -> Function:
        """Other settings from now on."""
        return self._put(self._configured(self.get(name), asked))

    def update_code(self, name: str, asked: Mapping[str, Any]) -> Function:
        """Other code from now on."""
        path, digest, size = self._unpack(asked)
        return self._put(replace(self.get(name), code=path, code_sha256=digest, code_bytes=size))

    def reserve(self, name: str, concurrency: int | None) -> Function:
        """How many may run at once; None: as many as the account allows."""
        if concurrency is not None and concurrency < 0:
            raise invalid("ReservedConcurrentExecutions must not be negative")
        return self._put(replace(self.get(name), reserved=concurrency), new_revision=False)

    def delete(self, name: str) -> Function:
        """Forget it."""
        function = self.get(name)
        with self._lock:
            self._known.pop(function.name, None)
        return function

    def _put(self, function: Function, new_revision: bool = True) -> Function:
        changed = replace(function, revision=function.revision + new_revision, modified_at=time.time())
        with self._lock:
            if function.name not in self._known:
                raise not_found(function.arn)
            self._known[function.name] = changed
        return changed

    def _configured(self, function: Function, asked: Mapping[str, Any]) -> Function:
        variables = (asked.get("Environment") or {}).get("Variables", function.variables)
        return replace(
            function,
            handler=_filled("Handler", asked.get("Handler", function.handler)),
            memory_mb=_within("MemorySize", asked.get("MemorySize", function.memory_mb), 128, self._most_memory_mb),
            disk_mb=_within(
                "EphemeralStorage",
                (asked.get("EphemeralStorage") or {}).get("Size", function.disk_mb),
                LEAST_DISK_MB,
                MOST_DISK_MB,
            ),
            network=asked.get("VpcConfig") or function.network,
            timeout_seconds=_within("Timeout", asked.get("Timeout", function.timeout_seconds), 1, self._most_seconds),
            variables={str(key): str(value) for key, value in variables.items()},
            role=str(asked.get("Role", function.role)),
            runtime=str(asked.get("Runtime", function.runtime)),
            description=str(asked.get("Description", function.description)),
        )

    def _unpack(self, code: Mapping[str, Any]) -> tuple[Path, str, int]:
        """Unpack a zip once, however often it is sent: its folder, digest and size."""
        if "ZipFile" not in code:
            raise invalid("This service takes code as a zip file (Code.ZipFile).")
        try:
            data = base64.b64decode(code["ZipFile"], validate=True)
            archive = zipfile.ZipFile(io.BytesIO(data))
        except (binascii.Error, zipfile.BadZipFile) as error:
            raise invalid("Could not unzip uploaded file.") from error
        digest = hashlib.sha256(data).digest()
        folder = self._folder / digest.hex()
        with self._lock:
            if not folder.is_dir():
                _unpack_into(archive, folder)
        return folder, base64.b64encode(digest).decode(), len(data)


def short_name(name: str) -> str:
    """The name alone, of a name, a partial or a full ARN."""
    return name.rsplit(":function:", 1)[-1].split(":")[0]


def _unpack_into(archive: zipfile.ZipFile, folder: Path) -> None:
    draft = folder.with_name(f".{folder.name}")
    shutil.rmtree(draft, ignore_errors=True)
    archive.extractall(draft)  # names that would leave the folder are made harmless by zipfile itself
    draft.rename(folder)


def _within(name: str, value: Any, least: int, most: int) -> int:
    if not isinstance(value, int) or not least <= value <= most:
        side = f"less than or equal to {most}" if isinstance(value, int) and value > most else "greater"
        raise invalid(
            f"Value '{value}' at '{name}' must be between {least} and {most}: '{name}' value failed to satisfy "
            f"constraint: Member must have value {side}"
        )
    return value


def _filled(name: str, value: Any) -> str:
    if not value:
        raise invalid(f"Parameter '{name}' is missing.")
    return str(value)
