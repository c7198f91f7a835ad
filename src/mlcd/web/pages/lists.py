"""Lists: jobs (live), models, offers, history."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from mlcd.core.listing import JobLine, Page
from mlcd.core.machines import Offer
from mlcd.core.run import JobState
from mlcd.errors import MlcdError
from mlcd.web.api.common import Cursor, VisibleJob
from mlcd.web.auth import SignedIn, SiteOf, owners_of
from mlcd.web.clouds import clouds_of
from mlcd.web.pages.rendering import page, part
from mlcd.web.site import Site
from mlcd.web.streams import Update, event, stream_response

router = APIRouter()

PAGE = 25
_BUSY = (JobState.SEARCHING, JobState.TRAINING)

State = Annotated[str, Query(pattern=rf"^({'|'.join(JobState)})?$")]
Words = Annotated[str, Query(max_length=100)]


@dataclass(frozen=True)
class Choice:
    """Which jobs are to be listed."""

    owners: frozenset[str] | None
    state: str
    words: str
    cursor: str | None

    @property
    def key(self) -> str:
        """Tells this list from every other."""
        whose = "*" if self.owners is None else ",".join(sorted(self.owners))
        return f"list/{whose}/{self.state}/{self.cursor or ''}/{self.words}"

    def address(self, path: str, cursor: str | None) -> str:
        """Of this list from that place on."""
        asked = {"state": self.state, "q": self.words, "cursor": cursor or ""}
        filled = {key: value for key, value in asked.items() if value}
        return f"{path}?{urlencode(filled)}" if filled else path

    def found(self, site: Site) -> Page[JobLine]:
        """The jobs."""
        states = [JobState(self.state)] if self.state else None
        return site.client.lines(states=states, words=self.words, cursor=self.cursor, limit=PAGE, owners=self.owners)


@router.get("/")
def home() -> Response:
    """The jobs are where one begins."""
    return RedirectResponse("/jobs", 303)


@router.get("/jobs")
def jobs(
    request: Request, site: SiteOf, actor: SignedIn, state: State = "", q: Words = "", cursor: Cursor = None
) -> Response:
    """Jobs, newest first."""
    choice = Choice(owners_of(site, actor), state, q, cursor)
    found = choice.found(site)
    return page(
        request,
        actor,
        "jobs.html",
        found=found,
        choice=choice,
        states=list(JobState),
        live=choice.address("/live/jobs", cursor),
        older=choice.address("/jobs", found.next) if found.next else "",
        show_owner=choice.owners is None and site.serve.accounts,
    )


@router.get("/live/jobs")
async def live_jobs(
    request: Request, site: SiteOf, actor: SignedIn, state: State = "", q: Words = "", cursor: Cursor = None
) -> Response:
    """The rows of that page as they change (server-sent events); what is no page gets them until they rest."""
    ends = "text/event-stream" not in request.headers.get("accept", "")
    owners = await run_in_threadpool(owners_of, site, actor)
    choice = Choice(owners, state, q, cursor)
    shown = choice.owners is None and site.serve.accounts
    chunks = site.hub.follow(choice.key, partial(_rows, site, choice, shown), 0, ends)
    return stream_response(chunks)


def _rows(site: Site, choice: Choice, show_owner: bool, _after: int) -> Update:
    """A page of the list, drawn."""
    found = choice.found(site)
    rows = part("parts/job_rows.html", found=found, show_owner=show_owner)
    resting = not any(line.state in _BUSY for line in found.items)
    return Update(snapshot=event("parts", {"parts": {"rows": rows}}), over=resting)


@router.get("/models")
def models(request: Request, site: SiteOf, actor: SignedIn, cursor: Cursor = None) -> Response:
    """What trainings handed back, newest first."""
    done = (JobState.SUCCEEDED,)
    found = site.client.lines(states=done, cursor=cursor, limit=PAGE, owners=owners_of(site, actor))
    views = [site.client.view(line.id) for line in found.items]
    older = f"/models?cursor={found.next}" if found.next else ""
    return page(request, actor, "models.html", views=views, cursor=cursor, older=older)


@router.get("/models/{job_id}")
def model(request: Request, job_id: VisibleJob, site: SiteOf, actor: SignedIn) -> Response:
    """One model: where it comes from, and a place to try it."""
    view = site.client.view(job_id)
    return page(request, actor, "model.html", view=view)


@router.get("/offers")
def offers(
    request: Request, site: SiteOf, actor: SignedIn, cloud: Annotated[str, Query(max_length=100)] = ""
) -> Response:
    """What the clouds sell now: the usual one, another, or all."""
    names = [name for name in clouds_of(site, actor) if name != "replay"]
    site.asks.take(actor.name)
    cloud = cloud or site.client.settings.cloud
    asked = [cloud] if cloud in names else names
    # One cloud that answers slowly does not hold up the others.
    with ThreadPoolExecutor(len(asked) or 1) as pool:
        answers = list(pool.map(lambda name: _offers_of(site, name), asked))
    found = [offer for answer in answers if isinstance(answer, list) for offer in answer]
    problems = [answer for answer in answers if isinstance(answer, MlcdError)]
    return page(request, actor, "offers.html", offers=found, clouds=names, cloud=cloud, problems=problems)


def _offers_of(site: Site, name: str) -> list[Offer] | MlcdError:
    """What a cloud sells, or why it cannot be asked: that does not hide the others."""
    try:
        return site.client.offers(name)
    except MlcdError as error:
        return error


@router.get("/history")
def history(request: Request, site: SiteOf, actor: SignedIn, cursor: Cursor = None) -> Response:
    """What earlier jobs tried and chose."""
    found = site.client.lessons(cursor=cursor, limit=PAGE, owners=owners_of(site, actor))
    older = f"/history?cursor={found.next}" if found.next else ""
    return page(request, actor, "history.html", lessons=found.items, cursor=cursor, older=older)
