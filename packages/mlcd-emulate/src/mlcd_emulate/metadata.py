"""The instance metadata service, which every host finds at 169.254.169.254.

One socket in each host's network namespace, all served from here: the service answers although the host's own
link is cut, takes none of its CPU, and knows who asks by the socket that was asked.
"""

from __future__ import annotations

import ctypes
import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server
from werkzeug.wrappers import Request, Response

from mlcd_emulate.network import METADATA_ADDRESS, NAMESPACES

_PORT = 80
_CLONE_NEWNET = 0x40000000
_LONGEST_TOKEN_S = 21_600

Tree = Mapping[str, str]  # path below /latest → text; what is not in it is 404


class MetadataService:
    """The service as one host sees it; `tree` is asked anew for each request."""

    def __init__(self, tree: Callable[[], Tree], token_required: Callable[[], bool]) -> None:
        self._tree = tree
        self._token_required = token_required
        self._tokens: dict[str, float] = {}

    def __call__(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        """Answer one request."""
        request = Request(environ)
        is_token = request.method == "PUT" and request.path == "/latest/api/token"
        response = self._token(request) if is_token else self._value(request)
        return response(environ, start_response)

    def _token(self, request: Request) -> Response:
        asked = request.headers.get("X-aws-ec2-metadata-token-ttl-seconds", "")
        if not asked.isdigit() or not 1 <= int(asked) <= _LONGEST_TOKEN_S:
            return Response(status=400)
        token = secrets.token_urlsafe(40)
        self._tokens[token] = time.monotonic() + int(asked)
        return Response(token, headers={"X-aws-ec2-metadata-token-ttl-seconds": asked})

    def _value(self, request: Request) -> Response:
        token = request.headers.get("X-aws-ec2-metadata-token")
        if token is None and self._token_required():
            return Response(status=401)
        if token is not None and self._tokens.get(token, 0.0) < time.monotonic():
            return Response(status=401)
        found = look_up(self._tree(), request.path)
        return Response(status=404) if found is None else Response(found, mimetype="text/plain")


def look_up(tree: Tree, path: str) -> str | None:
    """The text at a path, or the names below it where it is a folder."""
    wanted = path.removeprefix("/latest").strip("/")
    if wanted in tree:
        return tree[wanted]
    parent = f"{wanted}/" if wanted else ""
    below = [name.removeprefix(parent) for name in tree if name.startswith(parent)]
    names = dict.fromkeys(f"{each.partition('/')[0]}/" if "/" in each else each for each in below)
    return "\n".join(names) if names else None


def notice_tree(reclaim_at: str) -> dict[str, str]:
    """What a spot instance finds once it is to be taken away."""
    return {
        "meta-data/spot/instance-action": json.dumps({"action": "terminate", "time": reclaim_at}),
        "meta-data/spot/termination-time": reclaim_at,
    }


class MetadataServer:
    """A service that listens in one host's namespace until it is closed."""

    def __init__(self, service: MetadataService, namespace: str) -> None:
        listener = _listen_inside(namespace)
        self._server: BaseWSGIServer = make_server(
            METADATA_ADDRESS,
            _PORT,
            service,
            threaded=True,
            request_handler=QuietHandler,
            fd=listener.fileno(),
        )
        listener.close()  # the server has its own copy
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()


class QuietHandler(WSGIRequestHandler):
    """Handles requests without a word for each."""

    def log(self, type: str, message: str, *args: Any) -> None:  # noqa: A002  the name that is overridden
        """Say nothing: hosts poll this all the time."""


def _listen_inside(namespace: str) -> socket.socket:
    """A socket that belongs to another network namespace; only a thread of its own goes there."""
    with ThreadPoolExecutor(max_workers=1) as visitor:
        return visitor.submit(_visit, namespace).result()


def _visit(namespace: str) -> socket.socket:
    with (NAMESPACES / namespace).open() as door:
        if ctypes.CDLL(None, use_errno=True).setns(door.fileno(), _CLONE_NEWNET):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), namespace)
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((METADATA_ADDRESS, _PORT))
    listener.listen(64)
    return listener
