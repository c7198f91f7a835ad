"""Models that trainings handed back, and what earlier jobs learnt."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel
from starlette.responses import Response, StreamingResponse

from mlcd.core.listing import JobLine, Lesson
from mlcd.core.run import JobState
from mlcd.web.api.common import Cursor, Limit, VisibleJob, gives
from mlcd.web.auth import SignedIn, SiteOf, owners_of
from mlcd.web.serialize import answer

router = APIRouter(tags=["models"])


class Models(BaseModel):
    """A page of jobs that are done; the model of each is at /jobs/{id}/model."""

    items: list[JobLine]
    next: str | None


class Lessons(BaseModel):
    """A page of what earlier jobs tried and chose."""

    items: list[Lesson]
    next: str | None


@router.get("/models", responses=gives(Models))
def models(site: SiteOf, actor: SignedIn, cursor: Cursor = None, limit: Limit = 50) -> Response:
    """Jobs that succeeded, newest first."""
    done = (JobState.SUCCEEDED,)
    return answer(site.client.lines(states=done, cursor=cursor, limit=limit, owners=owners_of(site, actor)))


@router.get("/jobs/{job_id}/model", responses={200: {"content": {"application/zip": {}}}})
def model(job_id: VisibleJob, site: SiteOf) -> Response:
    """The trained model, as a zip file."""
    chunks = site.client.model(job_id)
    headers = {"Content-Disposition": f'attachment; filename="{job_id}.zip"'}
    return StreamingResponse(chunks, media_type="application/zip", headers=headers)


@router.get("/history", responses=gives(Lessons))
def history(site: SiteOf, actor: SignedIn, cursor: Cursor = None, limit: Limit = 50) -> Response:
    """What earlier jobs tried and chose, newest first."""
    return answer(site.client.lessons(cursor=cursor, limit=limit, owners=owners_of(site, actor)))
