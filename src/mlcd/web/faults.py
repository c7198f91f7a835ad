"""Errors as answers: what happened, what to do next, and which exit code it is to a command.

{"error": {"type": "NotFoundError", "message": "No job is called 'x'.", "hint": "…", "exit_code": 102}}
"""

from __future__ import annotations

import errno
import logging

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import Response

from mlcd import errors
from mlcd.errors import MlcdError, error_data
from mlcd.web.archives import BrokenArchiveError
from mlcd.web.serialize import answer
from mlcd.web.uploads import QuotaError

log = logging.getLogger("mlcd.web")

_FULL = (errno.ENOSPC, errno.EDQUOT)


class NoRoomError(errors.StoreError):
    """The disk of this server is full."""


_STATUS: tuple[tuple[type[MlcdError], int], ...] = (  # the first that fits
    (BrokenArchiveError, 422),
    (QuotaError, 413),
    (NoRoomError, 507),
    (errors.NotFoundError, 404),
    (errors.AllowanceError, 402),
    (errors.TooManyRequestsError, 429),
    (errors.NotAllowedError, 403),
    (errors.InvalidJobError, 422),
    (errors.GoalUnreachableError, 422),
    (errors.UserError, 400),
    (errors.CloudError, 424),  # the cloud behind this server said no
    (errors.StoreError, 503),
    (errors.MlcdError, 409),
)


class Fault(BaseModel):
    """What went wrong."""

    type: str
    message: str
    hint: str
    exit_code: int


class FaultAnswer(BaseModel):
    """The body of every answer that is an error."""

    error: Fault


class SignInNeededError(errors.NotAllowedError):
    """Nobody has signed in."""


def status_of(error: MlcdError) -> int:
    """The HTTP status of an error."""
    if isinstance(error, SignInNeededError):
        return 401
    return next(status for kind, status in _STATUS if isinstance(error, kind))


def answer_of(error: MlcdError) -> Response:
    """An error as an answer."""
    return answer(error_data(error), status_of(error), _headers(error))


def install(app: FastAPI) -> None:
    """Have the app answer errors so."""
    app.add_exception_handler(MlcdError, _mlcd)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(RecursionError, _too_deep)
    app.add_exception_handler(OSError, _computer)
    app.add_exception_handler(Exception, _crash)


def _headers(error: MlcdError) -> dict[str, str]:
    if isinstance(error, SignInNeededError):
        return {"WWW-Authenticate": "Bearer"}
    return {"Retry-After": "10"} if isinstance(error, errors.TooManyRequestsError) else {}


def _shown(request: Request, error: MlcdError, status: int, headers: dict[str, str] | None = None) -> Response:
    """A page for someone who looks at it in a browser; data for programs and for scripts of our pages."""
    in_browser = request.method == "GET" and "text/html" in request.headers.get("accept", "")
    looked_at = request.headers.get("sec-fetch-dest") == "document"
    if in_browser and (looked_at or not request.url.path.startswith("/api/")):
        shown: Response = request.app.state.error_page(request, error, status)
        return shown
    return answer(error_data(error), status, headers)


async def _mlcd(request: Request, error: Exception) -> Response:
    assert isinstance(error, MlcdError)
    return _shown(request, error, status_of(error), _headers(error))


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    return _shown(request, errors.UserError(f"{place}: {first['msg']}"), 422)


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    kind = errors.NotFoundError if error.status_code == 404 else errors.UserError
    return _shown(request, kind(str(error.detail)), error.status_code, dict(error.headers or {}))


async def _too_deep(_request: Request, _error: Exception) -> Response:
    return answer(error_data(errors.UserError("This is nested too deeply.")), 400)


async def _computer(request: Request, error: Exception) -> Response:
    """A full disk is an error of its own: nothing was stored, and the request was fine."""
    if not isinstance(error, OSError) or error.errno not in _FULL:
        return await _crash(request, error)
    log.error("%s %s failed: the disk is full", request.method, request.url.path)
    full = NoRoomError("The server's disk is full; nothing was stored.", "Tell an admin, and send it again.")
    return _shown(request, full, status_of(full))


async def _crash(request: Request, error: Exception) -> Response:
    """A bug of ours: the trace goes to the log, and nothing of it over the wire."""
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return _shown(request, errors.ServerError("The server failed; its log says why."), 500)
