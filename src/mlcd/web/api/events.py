"""What happens to a job: events and logs, in pages and as streams."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from mlcd.core.listing import LogPage
from mlcd.core.records import Event
from mlcd.web.api.common import Limit, Number, VisibleJob, gives, page_of
from mlcd.web.auth import SiteOf
from mlcd.web.serialize import answer, light
from mlcd.web.site import Site
from mlcd.web.streams import Piece, Update, event, stream_response

router = APIRouter(tags=["following"])

Task = Annotated[str | None, Query(max_length=200, description="A probe or attempt by its id; the newest without it.")]
Node = Annotated[int, Query(ge=0, le=100_000)]
LastEvent = Annotated[str, Header(alias="Last-Event-ID", max_length=20)]

_STREAM: dict[int | str, dict[str, Any]] = {200: {"content": {"text/event-stream": {}}}}
_AT_ONCE = 500  # events read at once
_END = 2**53  # beyond the end of every log


@router.get("/jobs/{job_id}/events", responses=gives(page_of(Event)))
def events(job_id: VisibleJob, site: SiteOf, after: Number = 0, limit: Limit = 500) -> Response:
    """Events after that number; `next` is the `after` of the next page."""
    found = site.client.events(job_id, after, limit)
    return answer({"items": found, "next": str(found[-1].number) if len(found) == limit else None})


@router.get("/jobs/{job_id}/stream", responses=_STREAM)
async def stream(
    job_id: VisibleJob,
    site: SiteOf,
    after: Number = 0,
    last_event_id: LastEvent = "",
    ends: Annotated[bool, Query(description="End when the job rests.")] = False,
) -> Response:
    """Events and views of a job as they come (server-sent events)."""
    source = partial(_job_news, site, job_id)
    chunks = site.hub.follow(f"job/{job_id}", source, _place(after, last_event_id), ends)
    return stream_response(chunks)


@router.get("/jobs/{job_id}/logs", responses=gives(LogPage))
def logs(job_id: VisibleJob, site: SiteOf, after: Number = 0, node: Node = 0, task: Task = None) -> Response:
    """Lines of a task's log from an offset; `next` is the `after` of the next page."""
    return answer(site.client.log_page(job_id, after=after, node=node, task=task))


@router.get("/jobs/{job_id}/logs/stream", responses=_STREAM)
async def log_stream(
    job_id: VisibleJob,
    site: SiteOf,
    after: Number = 0,
    node: Node = 0,
    task: Task = None,
    last_event_id: LastEvent = "",
) -> Response:
    """A task's log as it grows (server-sent events); ends with the task."""
    if task is None:
        task = await run_in_threadpool(_newest_task, site, job_id)
    source = partial(_log_news, site, job_id, task, node)
    await run_in_threadpool(source, _END)  # an unknown task is a 404 now rather than an empty stream
    chunks = site.hub.follow(f"log/{task}/{node}/{job_id}", source, _place(after, last_event_id), ends=True)
    return stream_response(chunks)


def _job_news(site: Site, job_id: str, after: int) -> Update:
    """Events of a job, and its present state."""
    found = site.client.events(job_id, after, _AT_ONCE)
    view = site.client.view(job_id)
    pieces = [Piece(one.number - 1, one.number, event("event", one, one.number)) for one in found]
    return Update(pieces, event("view", light(view)), over=view.at_rest and len(found) < _AT_ONCE)


def _log_news(site: Site, job_id: str, task: str, node: int, after: int) -> Update:
    """A log of one node."""
    page = site.client.log_page(job_id, after=after, node=node, task=task)
    data = {"lines": page.lines, "next": page.next}
    pieces = [Piece(after, page.next, event("lines", data, page.next))] if page.lines else []
    return Update(pieces, over=page.over)


def _newest_task(site: Site, job_id: str) -> str:
    return site.client.log_page(job_id, after=_END).task_id


def _place(after: int, last_event_id: str) -> int:
    """Where to continue: a browser that reconnects sends it in a header."""
    return int(last_event_id) if last_event_id.isascii() and last_event_id.isdigit() else after
