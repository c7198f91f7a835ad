"""One job, live."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from mlcd.core.accounts import Role
from mlcd.web.api.common import VisibleJob
from mlcd.web.auth import SignedIn, SiteOf
from mlcd.web.pages.charts import ChartCache
from mlcd.web.pages.parts import JobParts
from mlcd.web.pages.rendering import page
from mlcd.web.streams import stream_response

router = APIRouter()


@router.get("/jobs/{job_id}")
def job(request: Request, job_id: VisibleJob, site: SiteOf, actor: SignedIn) -> Response:
    """All there is to know of a job."""
    shown = JobParts(site, job_id).shown()
    steers = actor.role is not Role.VIEWER
    return page(request, actor, "job.html", **shown, steers=steers)


@router.get("/live/jobs/{job_id}")
async def live(job_id: VisibleJob, site: SiteOf) -> Response:
    """The pieces of that page as they change (server-sent events)."""
    chunks = site.hub.follow(f"page/{job_id}", JobParts(site, job_id), 0, ends=False)
    return stream_response(chunks)


@router.get("/jobs/{job_id}/charts/search")
def search_charts(request: Request, job_id: VisibleJob, site: SiteOf) -> Response:
    """The charts of the search as data."""
    return Response(_cache(request).charts(site.client, job_id, "search"), media_type="application/json")


@router.get("/jobs/{job_id}/charts/training")
def training_charts(request: Request, job_id: VisibleJob, site: SiteOf) -> Response:
    """The charts of the training as data."""
    return Response(_cache(request).charts(site.client, job_id, "training"), media_type="application/json")


def _cache(request: Request) -> ChartCache:
    """This process's charts."""
    state = request.app.state
    if not hasattr(state, "charts"):
        state.charts = ChartCache()
    cache: ChartCache = state.charts
    return cache
