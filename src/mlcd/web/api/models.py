"""Models that trainings handed back, and what earlier jobs learnt."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response, StreamingResponse

from mlcd.core.listing import JobLine, Lesson
from mlcd.core.run import JobState
from mlcd.web.api.common import Cursor, Limit, VisibleJob, gives, page_of
from mlcd.web.auth import SignedIn, SiteOf, owners_of
from mlcd.web.serialize import answer

router = APIRouter(tags=["models"])


@router.get("/models", responses=gives(page_of(JobLine)))
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


@router.get("/history", responses=gives(page_of(Lesson)))
def history(site: SiteOf, actor: SignedIn, cursor: Cursor = None, limit: Limit = 50) -> Response:
    """What earlier jobs tried and chose, newest first."""
    return answer(site.client.lessons(cursor=cursor, limit=limit, owners=owners_of(site, actor)))
