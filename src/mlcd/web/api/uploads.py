"""Uploads: code and data, sent as the body itself or as a form's file."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException
from starlette.responses import Response

from mlcd.core.accounts import Upload
from mlcd.errors import UserError
from mlcd.web.api.common import Limit, gives
from mlcd.web.headers import TooLargeError
from mlcd.web.site import Site
from mlcd.web.uploads import Contents, Received
from mlcd.web.who import Actor, Maker, Me, SiteOf
from mlcd.web.wire import answer

router = APIRouter(tags=["uploads"])

UploadId = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$")]
_CHUNK = 256 * 1024
_BODY = {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}


class UploadAnswer(BaseModel):
    """An upload, and what is in it."""

    upload: Upload
    contents: Contents


class UploadList(BaseModel):
    """Uploads, newest first."""

    items: list[Upload]


@router.post(
    "/uploads", status_code=201, responses=gives(UploadAnswer, 201), openapi_extra={"requestBody": _BODY}
)
async def send(
    request: Request, site: SiteOf, who: Maker, name: Annotated[str, Query(max_length=300)] = "upload"
) -> Response:
    """Send a wheel, a zip or a tar of a folder (it is unpacked), or any other file (it is kept as it is).

    The same content has the same id: sending it twice keeps it once.
    """
    try:
        if request.headers.get("content-type", "").startswith("multipart/form-data"):
            received = await _from_form(site, request, name)
        else:
            received = await site.uploads.receive(name, request.stream())
    except (TooLargeError, MultiPartException) as error:
        raise UserError("The upload is larger than this server takes, or broken.", "Send less.") from error
    return await run_in_threadpool(_keep, site, who, received)


@router.get("/uploads", responses=gives(UploadList))
def uploads(site: SiteOf, who: Me, limit: Limit = 50) -> Response:
    """What you have sent, newest first."""
    return answer({"items": site.client.store.service.uploads(who.name, None, limit)})


@router.get("/uploads/{upload_id}", responses=gives(UploadAnswer))
def upload(upload_id: UploadId, site: SiteOf, who: Me) -> Response:
    """One upload, and what is in it."""
    found = site.client.store.service.upload(upload_id, None if who.is_admin else who.name)
    return answer({"upload": found, "contents": site.uploads.contents(found.id)})


async def _from_form(site: Site, request: Request, name: str) -> Received:
    async with request.form(max_files=1, max_fields=20) as form:
        file = next((value for value in form.values() if isinstance(value, UploadFile)), None)
        if file is None:
            raise UserError("The form holds no file.")
        return await site.uploads.receive(file.filename or name, _chunks(file))


async def _chunks(file: UploadFile) -> AsyncIterator[bytes]:
    while chunk := await file.read(_CHUNK):
        yield chunk


def _keep(site: Site, who: Actor, received: Received) -> Response:
    kept = Upload(received.id, who.name, received.name, received.bytes, time.time())
    site.client.store.service.add_upload(kept)
    site.note(who.name, "upload", received.id, received.name)
    return answer({"upload": kept, "contents": site.uploads.contents(kept.id)}, 201)
