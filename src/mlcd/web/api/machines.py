"""Machines: what is for sale, and what was forgotten."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from mlcd import __version__, registry
from mlcd.core.datasets import DataSet, data_sets
from mlcd.core.machines import Offer
from mlcd.core.view import IncompleteSweepError, Stray, SweepProblem
from mlcd.web.api.common import gives, list_of
from mlcd.web.auth import Actor, Admin, SignedIn, SiteOf, refuse_other_sites
from mlcd.web.clouds import clouds_of, refuse_cloud
from mlcd.web.idempotency import Idempotent
from mlcd.web.serialize import answer
from mlcd.web.site import Site
from mlcd.web.submission import Body, cloud_options

router = APIRouter(tags=["machines"])


class Strays(BaseModel):
    """What costs money and belongs to no running job."""

    items: list[Stray]
    problems: list[SweepProblem] = []  # clouds that could not be asked, or did not end what they were told to


class Sweep(Body):
    """Whether to end them, and whether to include those that another computer manages."""

    end: bool = False
    others: bool = False


class About(BaseModel):
    """The server's version, clouds, strategies and limits."""

    version: str
    accounts: bool
    cloud: str
    clouds: list[str]
    strategies: list[str]
    platforms: list[str]
    datasets: list[DataSet] = Field(
        description="Built-in ones that are installed: `file_mounts: {data: builtin:NAME}`."
    )
    upload_bytes: int


class OffersRequest(Body):
    """Which cloud is asked, and how."""

    cloud: str | None = Field(None, max_length=100, description="By default the cloud of the server's settings.")
    options: dict[str, str] = Field(
        default_factory=dict, description="The cloud's options; only admins may say where the cloud is."
    )


@router.get("/offers", responses=gives(list_of(Offer)))
def offers(
    request: Request,
    site: SiteOf,
    actor: SignedIn,
    cloud: Annotated[str | None, Query(max_length=100)] = None,
) -> Response:
    """What a cloud sells now."""
    refuse_other_sites(request)
    return _offers(site, actor, OffersRequest(cloud=cloud))


@router.post("/offers", name="offers_with_options", responses=gives(list_of(Offer)))
def offers_with_options(sent: OffersRequest, site: SiteOf, actor: SignedIn) -> Response:
    """What a cloud sells now, with options of your own."""
    return _offers(site, actor, sent)


def _offers(site: Site, actor: Actor, asked: OffersRequest) -> Response:
    cloud = asked.cloud or site.client.settings.cloud
    refuse_cloud(site, actor, cloud)
    options = cloud_options(site, actor, cloud, asked.options)
    site.asks.take(actor.name)
    return answer({"items": site.client.offers(cloud, options)})


@router.post("/sweep", responses=gives(Strays))
def sweep(sent: Sweep, site: SiteOf, actor: Admin, idempotent: Idempotent) -> Response:
    """List what costs money and belongs to no running job, and end it if asked."""

    def act(_reserved: str) -> Response:
        problems: list[SweepProblem] = []
        try:
            strays = site.client.sweep(end=sent.end, others=sent.others)
        except IncompleteSweepError as error:
            strays, problems = error.strays, error.problems
        if sent.end:
            site.note(actor.name, "sweep", ", ".join(stray.owned.task_id for stray in strays))
        return answer({"items": strays, "problems": problems})

    return idempotent.answer(act)


@router.get("/about", responses=gives(About))
def about(site: SiteOf, actor: SignedIn) -> Response:
    """The server's version, clouds, strategies and limits."""
    return answer(
        {
            "version": __version__,
            "accounts": site.serve.accounts,
            "cloud": site.client.settings.cloud,
            "clouds": clouds_of(site, actor),
            "strategies": registry.names("searchers"),
            "platforms": registry.names("platforms"),
            "datasets": [each for each in data_sets() if each.is_here],
            "upload_bytes": site.serve.upload_bytes,
        }
    )
