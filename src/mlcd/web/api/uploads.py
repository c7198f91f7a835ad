"""Uploads: code and data, sent as the body itself or as a form's file."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException
from starlette.responses import Response

from mlcd.core.accounts import Upload
from mlcd.errors import NotFoundError, UserError
from mlcd.web.api.common import Cursor, Limit, gives, page_of
from mlcd.web.archives import safe_name
from mlcd.web.auth import Actor, Editor, SignedIn, SiteOf
from mlcd.web.headers import TooLargeError, count_body
from mlcd.web.serialize import answer
from mlcd.web.site import Site
from mlcd.web.uploads import Contents, Received, Sender
from mlcd.web.uploads import upload_id as known_by

router = APIRouter(tags=["uploads"])

UploadId = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$")]
_CHUNK = 256 * 1024
_BODY = {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}


class UploadAnswer(BaseModel):
    """An upload, and what is in it."""

    upload: Upload
    contents: Contents


@router.post("/uploads", status_code=201, responses=gives(UploadAnswer, 201), openapi_extra={"requestBody": _BODY})
async def send(
    request: Request, site: SiteOf, actor: Editor, name: Annotated[str, Query(max_length=300)] = "upload"
) -> Response:
    """Upload a wheel, a zip or a tar of a folder (it is unpacked), or any other file (it stays as it is).

    An upload with the same name and content is stored once.
    """
    site.sends.take(actor.name)
    try:
        if request.headers.get("content-type", "").startswith("multipart/form-data"):
            received = await _from_form(site, request, name, actor)
        else:
            received = await site.uploads.receive(
                sender_of(site, actor), name, request.stream(), recorder_of(site, actor)
            )
    except (TooLargeError, MultiPartException) as error:
        raise UserError("The upload is larger than this server takes, or broken.", "Send less.") from error
    return await run_in_threadpool(_answer, site, actor, received)


@router.get("/uploads", responses=gives(page_of(Upload)))
def uploads(site: SiteOf, actor: SignedIn, cursor: Cursor = None, limit: Limit = 50) -> Response:
    """Your uploads, the most recently used first."""
    found = site.service.uploads.page(actor.name, _read(cursor), limit)
    return answer({"items": found, "next": repr(found[-1].at) if len(found) == limit else None})


@router.get("/uploads/{upload_id}", responses=gives(UploadAnswer))
def upload(upload_id: UploadId, site: SiteOf, actor: SignedIn) -> Response:
    """One upload, and what is in it; this renews it for a new job."""
    return _found(site, upload_id, None if actor.is_admin else actor.name)


@router.get("/uploads/by-content/{digest}", name="upload_by_content", responses=gives(UploadAnswer))
def by_content(
    digest: UploadId, site: SiteOf, actor: SignedIn, name: Annotated[str, Query(max_length=300)] = "upload"
) -> Response:
    """Your upload with this name and content, by its SHA-256; 404 if there is none."""
    try:
        return _found(site, known_by(actor.name, safe_name(name), digest), actor.name)
    except NotFoundError as error:
        raise NotFoundError("No upload of yours has this content and this name.", "Send it.") from error


def _found(site: Site, upload_id: str, owner: str | None) -> Response:
    found = site.service.uploads.use(upload_id, owner, time.time())
    return answer({"upload": found, "contents": site.uploads.contents(found.id)})


def sender_of(site: Site, actor: Actor) -> Sender:
    """Who sends; with accounts there is a quota for each."""
    most = site.serve.upload_quota_bytes if site.serve.accounts else None
    return Sender(actor.name, lambda: site.service.uploads.ids_of(actor.name), most)


def recorder_of(site: Site, actor: Actor) -> Callable[[Received], None]:
    """Records who sent an upload."""
    return lambda received: site.service.uploads.add(_upload(actor, received))


async def _from_form(site: Site, request: Request, name: str, actor: Actor) -> Received:
    """A form is put aside on the disk before its file can be read: it counts from its first byte on."""
    announced = int(request.headers.get("content-length", 0))
    async with (
        site.uploads.arriving(sender_of(site, actor), announced) as arrival,
        Request(request.scope, count_body(request.receive, arrival.hold)).form(max_files=1, max_fields=20) as form,
    ):
        file = next((value for value in form.values() if isinstance(value, UploadFile)), None)
        if file is None:
            raise UserError("The form holds no file.")
        return await site.uploads.take(arrival, file.filename or name, _chunks(file), recorder_of(site, actor))


async def _chunks(file: UploadFile) -> AsyncIterator[bytes]:
    while chunk := await file.read(_CHUNK):
        yield chunk


def _upload(actor: Actor, received: Received) -> Upload:
    return Upload(received.id, actor.name, received.name, received.bytes, time.time())


def _answer(site: Site, actor: Actor, received: Received) -> Response:
    site.note(actor.name, "upload", received.id, received.name)
    return answer({"upload": _upload(actor, received), "contents": site.uploads.contents(received.id)}, 201)


def _read(cursor: str | None) -> float | None:
    try:
        return float(cursor) if cursor else None
    except ValueError:
        raise UserError(f"'{(cursor or '')[:40]}' is no cursor of a list.") from None
