"""Around every request: security headers, the hosts that may be asked for, and how much may be sent."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from urllib.parse import unquote_to_bytes

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mlcd.errors import UserError, error_data
from mlcd.web.serialize import answer
from mlcd.web.settings import is_loopback

BODY_BYTES = 2 * 2**20  # of anything but an upload
UPLOADS = "/api/v1/uploads"

_ALWAYS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
_PAGE = (
    "default-src 'none'; script-src 'self' 'nonce-{nonce}'; style-src 'self' 'nonce-{nonce}'; img-src 'self' data: blob:; "
    "font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-src 'self'; frame-ancestors 'none'"
)


class SecurityHeaders:
    """Sets what a handler has not set by itself; pages find the nonce in request.state.nonce."""

    def __init__(self, app: ASGIApp, secure: bool) -> None:
        self._app = app
        self._secure = secure

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        nonce = secrets.token_urlsafe(16)
        scope.setdefault("state", {})["nonce"] = nonce

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._add(MutableHeaders(scope=message), nonce)
            await send(message)

        await self._app(scope, receive, send_with_headers)

    def _add(self, headers: MutableHeaders, nonce: str) -> None:
        for name, value in _ALWAYS.items():
            headers.setdefault(name, value)
        headers.setdefault("Content-Security-Policy", _PAGE.format(nonce=nonce))
        headers.setdefault("Cache-Control", "no-store")
        if self._secure:
            headers.setdefault("Strict-Transport-Security", "max-age=31536000")


class RequestLimits:
    """Turns away what no handler should see: foreign hosts, NUL characters, bodies that are too large."""

    def __init__(self, app: ASGIApp, hosts_open: bool, upload_bytes: int) -> None:
        self._app = app
        self._hosts_open = hosts_open  # without accounts only this computer's own names are answered to
        self._upload_bytes = upload_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        most = self._upload_bytes if scope["path"] == UPLOADS else BODY_BYTES
        why = self._refusal(scope, most)
        if why is not None:
            status, text = why
            await answer(error_data(UserError(text)), status)(scope, receive, send)
            return

        def refuse_beyond(seen: int) -> None:
            if seen > most:
                raise TooLargeError(most)

        await self._app(scope, count_body(receive, refuse_beyond), send)

    def _refusal(self, scope: Scope, most: int) -> tuple[int, str] | None:
        headers = Headers(scope=scope)
        if not self._hosts_open and not is_loopback(_host(headers.get("host", ""))):
            return 421, "Without accounts this server answers to localhost only."
        if b"\0" in unquote_to_bytes(scope["path"]) or b"\0" in unquote_to_bytes(scope["query_string"]):
            return 400, "The address holds a NUL character."
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > most:
            return 413, f"This is more than the {most:,} bytes that may be sent."
        return None


class TooLargeError(Exception):
    """More came than may be sent."""


def count_body(receive: Receive, check: Callable[[int], None]) -> Receive:
    """The body, with a check of how many bytes came so far; an error of the check cuts it off."""
    seen = 0

    async def counted() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        check(seen)
        return message

    return counted


def _host(value: str) -> str:
    """The name in a Host header, without its port."""
    if value.startswith("["):
        return value[1:].partition("]")[0]
    return value.partition(":")[0]


def same_origin(headers: Headers, hosts: Iterable[str]) -> bool:
    """Whether a request comes from our own page or from no browser's page at all."""
    if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        return False
    origin = headers.get("origin")
    if origin is None:
        return True
    host = origin.partition("://")[2].rstrip("/")  # nothing, where a browser says 'null'
    return bool(host) and host in set(hosts)
