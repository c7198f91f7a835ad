"""Where things lie on the server is nobody's business who only uses it: such paths are taken out of every answer.

/var/lib/mlcd/uploads/<id>/content/train.py   upload:<id>/train.py
/var/lib/mlcd/jobs/digits-3f2a1c/model        $MLCD_HOME/jobs/digits-3f2a1c/model
/opt/mlcd/lib/python3.11/…                    $PYTHON/lib/python3.11/…
"""

from __future__ import annotations

import html
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import mlcd

_TEXTS = ("application/json", "text/html", "text/event-stream", "text/plain")
_SYSTEM = ("/", "/usr", "/usr/local")  # the same everywhere: they tell nothing

_ENDS = rb"(?![\w-]|\.\w)"  # the name goes no further

Hide = Callable[[bytes], bytes]


def hider(home: Path) -> Hide:
    """Takes the paths of a server with this home out of a text."""
    package = Path(mlcd.__file__).resolve().parent
    prefixes = {sys.prefix, sys.base_prefix} - set(_SYSTEM)
    homes = dict.fromkeys((str(home), str(home.resolve())), "$MLCD_HOME")  # a link leads to it, or not
    words = {**homes, str(package): "mlcd", **dict.fromkeys(prefixes, "$PYTHON")}
    rules = [
        (re.compile(re.escape(written) + _ENDS), word.encode())
        for path, word in sorted(words.items(), key=lambda rule: -len(rule[0]))
        for written in _as_written(path)
    ]
    upload = re.compile(rb"\$MLCD_HOME/uploads/([0-9a-f]{64})/content" + _ENDS)

    def hide(text: bytes) -> bytes:
        for pattern, word in rules:
            text = pattern.sub(word, text)
        return upload.sub(rb"upload:\1", text)

    return hide


class HiddenPaths:
    """Takes the paths out of every answer that is a text."""

    def __init__(self, app: ASGIApp, hide: Hide) -> None:
        self._app = app
        self._hide = hide

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        await self._app(scope, receive, self._hidden(scope["method"], send))

    def _hidden(self, method: str, send: Send) -> Send:
        """Sends without paths; a text's start is held back until it is known how long it has become."""
        start: Message | None = None
        is_text = False

        async def send_hidden(message: Message) -> None:
            nonlocal start, is_text
            if message["type"] == "http.response.start" and _is_text(message):
                start, is_text = message, True
                return
            if message["type"] == "http.response.body" and is_text:
                message = {**message, "body": self._hide(message.get("body", b""))}
                if start is not None:
                    first, start = start, None
                    await send(_with_length(first, message, method))
            await send(message)

        return send_hidden


def _is_text(start: Message) -> bool:
    return MutableHeaders(scope=start).get("content-type", "").startswith(_TEXTS)


def _with_length(start: Message, body: Message, method: str) -> Message:
    headers = MutableHeaders(scope=start)
    if "content-length" in headers and method != "HEAD":
        if body.get("more_body", False):
            del headers["content-length"]
        else:
            headers["content-length"] = str(len(body["body"]))
    return start


def _as_written(path: str) -> set[bytes]:
    """A path as it stands in plain text, in JSON and in HTML."""
    page = html.escape(path)
    template = page.replace("&#x27;", "&#39;").replace("&quot;", "&#34;")
    forms = (path, json.dumps(path)[1:-1], json.dumps(path, ensure_ascii=False)[1:-1], page, template)
    return {form.encode() for form in forms}
