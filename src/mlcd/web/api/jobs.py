"""Jobs: check, submit, list, look at, and steer."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from mlcd.api import new_job_id
from mlcd.core.listing import JobLine
from mlcd.core.records import JobRecord
from mlcd.core.run import JobState
from mlcd.core.view import Check, JobStory, JobView
from mlcd.web.api.common import Cursor, EditableJob, Limit, VisibleJob, address_of, gives, page_of
from mlcd.web.auth import Editor, SignedIn, SiteOf, owners_of
from mlcd.web.clouds import refuse_job
from mlcd.web.idempotency import Idempotent
from mlcd.web.serialize import answer, light
from mlcd.web.site import Site
from mlcd.web.submission import Body, NewJob, Submission, cloud_options, load

router = APIRouter(tags=["jobs"])

# A report is a page of its own: it may run its scripts, but not as us and not with our cookies.
_REPORT_POLICY = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; font-src data:; frame-ancestors 'self'"
)


class CreatedJob(BaseModel):
    """The id of a new job, and notices about it."""

    id: str
    notices: list[str]


class Place(Body):
    """Where a training continues; what is not named stays as it is."""

    instance: Annotated[str | None, Field(max_length=200)] = None
    nodes: Annotated[int | None, Field(ge=1, le=100_000)] = None
    batch_size: Annotated[int | None, Field(ge=1, le=1_000_000_000)] = None


class Limits(Body):
    """New limits of a job; what is left out stays."""

    budget_usd: float | None = Field(None, gt=0, le=1e9, description="The total, not an addition.")
    deadline: str | None = Field(None, max_length=100, description="'6h' from now, or a clock time with its zone.")


@router.post("/check", responses=gives(Check))
def check(sent: Submission, site: SiteOf, actor: Editor) -> Response:
    """The deployments that a job would try; nothing is spent."""
    loaded = load(site, actor, sent)
    options = cloud_options(site, actor, sent.cloud or loaded.job.cloud, sent.cloud_options)
    return answer(site.client.check(loaded, cloud=sent.cloud, cloud_options=options))


@router.post("/jobs", status_code=201, responses=gives(CreatedJob, 201))
def submit(sent: NewJob, site: SiteOf, actor: Editor, idempotent: Idempotent, request: Request) -> Response:
    """Store a job; with `start` its search begins, with `confirm` it trains without asking."""
    return idempotent.answer(lambda reserved: _submit(site, actor, sent, reserved, address_of(request)))


def _submit(site: Site, actor: Editor, sent: NewJob, reserved: str, address: str) -> Response:
    loaded = load(site, actor, sent)
    options = cloud_options(site, actor, sent.cloud or loaded.job.cloud, sent.cloud_options)
    job_id = site.client.submit(
        loaded,
        cloud=sent.cloud,
        cloud_options=options,
        owner=actor.name,
        job_id=f"{new_job_id(loaded.job.name).rpartition('-')[0]}-{reserved[:8]}",
    )
    site.note(actor.name, "submit", job_id, address=address)
    if sent.confirm:
        site.client.confirm(job_id)
    if sent.start:
        site.client.start(job_id)
    return answer({"id": job_id, "notices": list(loaded.notices)}, 201)


@router.get("/jobs", responses=gives(page_of(JobLine)))
def lines(
    site: SiteOf,
    actor: SignedIn,
    state: Annotated[list[JobState] | None, Query(description="Only jobs in one of these states.")] = None,
    q: Annotated[str, Query(max_length=100, description="A part of the name or of the id.")] = "",
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Response:
    """A summary of each job, newest first."""
    owners = owners_of(site, actor)
    return answer(site.client.lines(states=state, words=q, cursor=cursor, limit=limit, owners=owners))


@router.get("/views", responses=gives(page_of(JobView)))
def views(
    site: SiteOf, actor: SignedIn, cursor: Cursor = None, limit: Annotated[int, Query(ge=1, le=100)] = 20
) -> Response:
    """Jobs in full, newest first."""
    page = site.client.lines(cursor=cursor, limit=limit, owners=owners_of(site, actor))
    return answer({"items": [site.client.view(line.id) for line in page.items], "next": page.next})


@router.get("/jobs/{job_id}", responses=gives(JobView))
def view(job_id: VisibleJob, site: SiteOf) -> Response:
    """The present state of a job."""
    return answer(site.client.view(job_id))


@router.get("/jobs/{job_id}/record", responses=gives(JobRecord))
def record(job_id: VisibleJob, site: SiteOf) -> Response:
    """The job as submitted, and its present limits."""
    return answer(site.client.find(job_id))


@router.get("/jobs/{job_id}/story", responses=gives(JobStory))
def story(job_id: VisibleJob, site: SiteOf) -> Response:
    """A job with everything that its report shows."""
    return answer(site.client.story(job_id))


@router.get("/jobs/{job_id}/report", responses={200: {"content": {"text/html": {}}}})
def report(job_id: VisibleJob, site: SiteOf) -> Response:
    """The job's report as one HTML page."""
    with tempfile.TemporaryDirectory(prefix="mlcd-report-") as folder:
        page = site.client.report(job_id, Path(folder) / "report.html").read_bytes()
    return Response(page, media_type="text/html", headers={"Content-Security-Policy": _REPORT_POLICY})


@router.post("/jobs/{job_id}/start", responses=gives(JobView))
def start(job_id: EditableJob, site: SiteOf, actor: Editor, idempotent: Idempotent) -> Response:
    """Start a controller for the job unless one is running."""
    return _steer(site, actor, idempotent, "start", job_id, site.client.start)


@router.post("/jobs/{job_id}/confirm", responses=gives(JobView))
def confirm(job_id: EditableJob, site: SiteOf, actor: Editor, idempotent: Idempotent) -> Response:
    """Accept the plan, now or in advance: the training may cost money."""
    return _steer(site, actor, idempotent, "confirm", job_id, site.client.confirm)


@router.post("/jobs/{job_id}/stop", responses=gives(JobView))
def stop(job_id: EditableJob, site: SiteOf, actor: Editor, idempotent: Idempotent) -> Response:
    """Ask the job to save a checkpoint and stop."""
    return _steer(site, actor, idempotent, "stop", job_id, site.client.stop)


@router.post("/jobs/{job_id}/resume", responses=gives(JobView))
def resume(job_id: EditableJob, site: SiteOf, actor: Editor, idempotent: Idempotent, limits: Limits) -> Response:
    """Continue a job that stopped, with new limits if given; of a running job, only the limits change."""

    def act(job_id: str) -> None:
        site.client.resume(job_id, budget_usd=limits.budget_usd, deadline=limits.deadline)

    return _steer(site, actor, idempotent, "resume", job_id, act)


@router.post("/jobs/{job_id}/move", responses=gives(JobView))
def move(job_id: EditableJob, site: SiteOf, actor: Editor, idempotent: Idempotent, place: Place) -> Response:
    """Continue a training on another deployment, from its checkpoint."""

    def act(job_id: str) -> None:
        site.client.move(job_id, instance=place.instance, nodes=place.nodes, batch_size=place.batch_size)

    return _steer(site, actor, idempotent, "move", job_id, act)


def _steer(
    site: Site, actor: Editor, idempotent: Idempotent, verb: str, job_id: str, act: Callable[[str], object]
) -> Response:
    def carry_out(_reserved: str) -> Response:
        if verb != "stop":
            refuse_job(site, actor, site.client.find(job_id))
        act(job_id)
        site.note(actor.name, verb, job_id)
        return answer(light(site.client.view(job_id)))

    return idempotent.answer(carry_out)
