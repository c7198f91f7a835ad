"""Lambda's REST API, as boto3's client calls it."""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

from mlcd_functions.service.callers import OwnUsersServer
from mlcd_functions.service.faults import ApiFault, invalid, not_json, too_large, unknown_path
from mlcd_functions.service.functions import Functions
from mlcd_functions.service.pool import Pool

SYNC_BYTES = 6 << 20
ASYNC_BYTES = 1 << 20
_CODE_BYTES = 70 << 20  # a zip of 50 MB, in base64

Answer = tuple[int, Any]  # HTTP status and what becomes JSON


class Front:
    """Answers calls; one route for each."""

    def __init__(self, functions: Functions, pool: Pool) -> None:
        self.functions = functions
        self.pool = pool

    def create(self, name: str, asked: dict[str, Any]) -> Answer:
        """CreateFunction."""
        return 201, self.functions.create(asked).configuration()

    def get(self, name: str, asked: dict[str, Any]) -> Answer:
        """GetFunction."""
        function = self.functions.get(name)
        concurrency = (
            {} if function.reserved is None else {"Concurrency": {"ReservedConcurrentExecutions": function.reserved}}
        )
        code = {"RepositoryType": "local", "Location": str(function.code)}
        return 200, {"Configuration": function.configuration(), "Code": code, **concurrency}

    def get_configuration(self, name: str, asked: dict[str, Any]) -> Answer:
        """GetFunctionConfiguration."""
        return 200, self.functions.get(name).configuration()

    def list_all(self, name: str, asked: dict[str, Any]) -> Answer:
        """ListFunctions, all on one page."""
        return 200, {"Functions": [function.configuration() for function in self.functions.all()]}

    def configure(self, name: str, asked: dict[str, Any]) -> Answer:
        """UpdateFunctionConfiguration."""
        return 200, self.functions.configure(name, asked).configuration()

    def update_code(self, name: str, asked: dict[str, Any]) -> Answer:
        """UpdateFunctionCode."""
        return 200, self.functions.update_code(name, asked).configuration()

    def delete(self, name: str, asked: dict[str, Any]) -> Answer:
        """DeleteFunction; what runs of it is ended, since nobody could find it any more."""
        self.pool.forget(self.functions.delete(name).name)
        return 204, None

    def reserve(self, name: str, asked: dict[str, Any]) -> Answer:
        """PutFunctionConcurrency."""
        wanted = asked.get("ReservedConcurrentExecutions")
        if not isinstance(wanted, int):
            raise invalid("ReservedConcurrentExecutions must be a whole number")
        self.functions.reserve(name, wanted)
        return 200, {"ReservedConcurrentExecutions": wanted}

    def get_reserved(self, name: str, asked: dict[str, Any]) -> Answer:
        """GetFunctionConcurrency."""
        reserved = self.functions.get(name).reserved
        return 200, {} if reserved is None else {"ReservedConcurrentExecutions": reserved}

    def unreserve(self, name: str, asked: dict[str, Any]) -> Answer:
        """DeleteFunctionConcurrency."""
        self.functions.reserve(name, None)
        return 204, None

    def account(self, name: str, asked: dict[str, Any]) -> Answer:
        """GetAccountSettings."""
        limit = {"ConcurrentExecutions": self.pool.concurrency}
        return 200, {"AccountLimit": limit, "AccountUsage": {"FunctionCount": len(self.functions.all())}}


Call = Callable[[Front, str, dict[str, Any]], Answer]
_NAMED = r"/2015-03-31/functions/([^/]+)"
_ROUTES: tuple[tuple[str, str, Call], ...] = (
    ("POST", r"/2015-03-31/functions()/?", Front.create),
    ("GET", r"/2015-03-31/functions()/?", Front.list_all),
    ("GET", _NAMED, Front.get),
    ("GET", _NAMED + "/configuration", Front.get_configuration),
    ("PUT", _NAMED + "/configuration", Front.configure),
    ("PUT", _NAMED + "/code", Front.update_code),
    ("DELETE", _NAMED, Front.delete),
    ("PUT", r"/2017-10-31/functions/([^/]+)/concurrency", Front.reserve),
    ("GET", r"/2019-09-30/functions/([^/]+)/concurrency", Front.get_reserved),
    ("DELETE", r"/2017-10-31/functions/([^/]+)/concurrency", Front.unreserve),
    ("GET", r"/2016-08-19/account-settings()/?", Front.account),
)


def serve(front: Front) -> ThreadingHTTPServer:
    """Answer on a free port of the loopback, in threads of their own."""
    handler: Callable[..., BaseHTTPRequestHandler] = type("_Bound", (_Requests,), {"front": front})
    server = OwnUsersServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, name="front", daemon=True).start()
    return server


class _Requests(BaseHTTPRequestHandler):
    """One connection of a client."""

    front: Front
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer()

    do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815  # the names are http.server's

    def _answer(self) -> None:
        try:
            body = self._body()
            path = urlsplit(self.path).path
            invoked = re.fullmatch(_NAMED + "/invocations", path)
            if invoked and self.command == "POST":
                self._invoke(unquote(invoked[1]), body)
            else:
                self._reply(*self._called(path, body))
        except ApiFault as fault:
            self._refuse(fault)

    def _called(self, path: str, body: bytes) -> Answer:
        for method, pattern, call in _ROUTES:
            match = re.fullmatch(pattern, path)
            if match and method == self.command:
                return call(self.front, unquote(match[1]), _parsed(body))
        raise unknown_path(self.command, path)

    def _invoke(self, name: str, body: bytes) -> None:
        kind = self.headers.get("X-Amz-Invocation-Type", "RequestResponse")
        function = self.front.functions.get(name)
        payload = body or b"{}"
        most = ASYNC_BYTES if kind == "Event" else SYNC_BYTES
        if len(payload) > most:
            raise too_large(len(payload), most)
        _parsed(payload)
        if kind == "DryRun":
            self._reply(204, None)
        elif kind == "Event":
            self.front.pool.invoke_later(lambda: self.front.functions.get(name), payload)
            self._reply(202, None)
        else:
            self._invoke_now(function.name, payload)

    def _invoke_now(self, name: str, payload: bytes) -> None:
        outcome = self.front.pool.invoke(self.front.functions.get(name), payload)
        headers = {"X-Amz-Executed-Version": "$LATEST", "x-amzn-RequestId": outcome.report.request_id}
        if outcome.error:
            headers["X-Amz-Function-Error"] = outcome.error
        if self.headers.get("X-Amz-Log-Type") == "Tail":
            headers["X-Amz-Log-Result"] = base64.b64encode(outcome.log_tail).decode()
        self._send(200, outcome.payload, headers)

    def _body(self) -> bytes:
        length = int(self.headers.get("Content-Length") or 0)
        if length > _CODE_BYTES:
            self.close_connection = True
            raise too_large(length, _CODE_BYTES)
        return self.rfile.read(length)

    def _refuse(self, fault: ApiFault) -> None:
        reason = {"Reason": fault.reason} if fault.reason else {}
        body = json.dumps({"Type": "User", "Message": fault.message, "message": fault.message, **reason})
        self._send(fault.status, body.encode(), {"x-amzn-ErrorType": fault.name})

    def _reply(self, status: int, answer: Any) -> None:
        self._send(status, b"" if answer is None else json.dumps(answer).encode(), {})

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        try:
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **headers}.items():
                self.send_header(name, value)
            if status != 204:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except (
            BrokenPipeError,
            ConnectionResetError,
        ):  # whoever asked is gone; the invocation is in the ledger
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the name is http.server's
        """Quiet: what matters is in the logs of the functions."""


def _parsed(body: bytes) -> dict[str, Any]:
    try:
        parsed = json.loads(body or b"{}")
    except ValueError as error:
        raise not_json(str(error)) from error
    return parsed if isinstance(parsed, dict) else {}
