"""HTTP to an mlcd server: JSON both ways, errors as they were raised there, retries where they are safe."""

from __future__ import annotations

import http.client
import json
import secrets
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, Any
from urllib.parse import quote, urlencode, urlsplit

from mlcd import errors
from mlcd.errors import MlcdError, ServerError, TaskFailedError, UserError

FIRST_RETRY_SECONDS = 1.0  # how long to try a server that has never answered: its address may be wrong
RETRY_SECONDS = 45.0  # and one that has: it is being restarted
WAIT_SECONDS = 0.25  # before the first retry, then longer
LONGEST_WAIT_SECONDS = 3.0
TIMEOUT_SECONDS = 120.0
CHUNK_BYTES = 256 * 1024


@dataclass(frozen=True)
class _Request:
    """One request, which may be sent again."""

    method: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    body: bytes | IO[bytes] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


class Connection:
    """One server."""

    def __init__(self, url: str, token: str = "") -> None:
        parts = urlsplit(url.rstrip("/"))
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UserError(f"'{url}' is not the address of a server.", "Write https://mlcd.example.org.")
        self.url = url.rstrip("/")
        self._parts = parts
        self._token = token
        self._patience = FIRST_RETRY_SECONDS

    def get(self, path: str, **query: Any) -> Any:
        """The JSON at a path."""
        return json.loads(self._ask(_Request("GET", path, query)))

    def post(self, path: str, data: Any) -> Any:
        """The answer to a POST, which is carried out once however often it must be sent."""
        headers = {"Content-Type": "application/json", "Idempotency-Key": secrets.token_hex(16)}
        return json.loads(self._ask(_Request("POST", path, body=json.dumps(data).encode(), headers=headers)))

    def send(self, path: str, file: IO[bytes], **query: Any) -> Any:
        """The answer to a file that is sent; sending the same twice is sending it once."""
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(file.seek(0, 2))}
        return json.loads(self._ask(_Request("POST", path, query, file, headers)))

    def text(self, path: str) -> bytes:
        """What lies at a path, as it is."""
        return self._ask(_Request("GET", path))

    def pieces(self, path: str) -> Iterator[bytes]:
        """The same, piece by piece."""
        with self._open(_Request("GET", path)) as answer:
            while chunk := answer.read(CHUNK_BYTES):
                yield chunk

    def _ask(self, request: _Request) -> bytes:
        began, wait = time.monotonic(), WAIT_SECONDS
        while True:
            try:
                with self._open(request) as answer:
                    self._patience = RETRY_SECONDS
                    return answer.read()
            except (OSError, http.client.HTTPException) as error:
                if time.monotonic() - began > self._patience:
                    raise self._unreachable(error) from error
            except errors.TooManyRequestsError:
                if time.monotonic() - began > RETRY_SECONDS:
                    raise
            time.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT_SECONDS)

    @contextmanager
    def _open(self, request: _Request) -> Iterator[http.client.HTTPResponse]:
        connection = self._connect()
        try:
            if request.body is not None and not isinstance(request.body, bytes):
                request.body.seek(0)
            headers = {**self._headers(), **request.headers}
            connection.request(request.method, self._target(request), request.body, headers)
            answer = connection.getresponse()
            if answer.status >= 400:
                raise _error(answer.status, answer.read())
            yield answer
        finally:
            connection.close()

    def _connect(self) -> http.client.HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        if self._parts.scheme == "https":
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(host, port, timeout=TIMEOUT_SECONDS, context=context)
        return http.client.HTTPConnection(host, port, timeout=TIMEOUT_SECONDS)

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}"} if self._token else {}

    def _target(self, request: _Request) -> str:
        given = {key: value for key, value in request.query.items() if value is not None}
        words = f"?{urlencode(given, doseq=True)}" if given else ""
        return f"{self._parts.path}/api/v1{quote(request.path)}{words}"

    def _unreachable(self, error: Exception) -> ServerError:
        return ServerError(
            f"The server {self.url} cannot be reached: {error}.", "Check the address (--server, MLCD_SERVER)."
        )


def _error(status: int, body: bytes) -> MlcdError:
    """The error that the server raised."""
    try:
        fault = json.loads(body)["error"]
        message, hint, name = str(fault["message"]), str(fault["hint"]), str(fault["type"])
    except (ValueError, KeyError, TypeError):
        return ServerError(f"The server answered {status}, but not as an mlcd server does.")
    kind = getattr(errors, name, ServerError)
    if kind is TaskFailedError:
        return TaskFailedError(message, hint, str(fault.get("log_tail", "")))
    return kind(message, hint) if isinstance(kind, type) and issubclass(kind, MlcdError) else ServerError(message, hint)
