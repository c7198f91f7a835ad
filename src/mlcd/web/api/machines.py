"""Machines: what is for sale, and what was forgotten."""

from __future__ import annotations

import json
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, TypeAdapter, ValidationError
from starlette.responses import Response

from mlcd import __version__, registry
from mlcd.core.machines import Offer
from mlcd.core.view import Stray
from mlcd.errors import UserError
from mlcd.web.api.common import gives
from mlcd.web.once import OncePer
from mlcd.web.submission import Body, cloud_options
from mlcd.web.who import Boss, Me, SiteOf
from mlcd.web.wire import answer

router = APIRouter(tags=["machines"])


class Offers(BaseModel):
    """What a cloud sells now."""

    items: list[Offer]


class Strays(BaseModel):
    """What costs money and belongs to no job at work."""

    items: list[Stray]


class Sweep(Body):
    """Whether to end them, and whether also those that another computer looks after."""

    end: bool = False
    others: bool = False


class About(BaseModel):
    """What this server is and knows."""

    version: str
    accounts: bool
    cloud: str
    clouds: list[str]
    strategies: list[str]
    platforms: list[str]
    upload_bytes: int


@router.get("/offers", responses=gives(Offers))
def offers(
    site: SiteOf,
    who: Me,
    cloud: Annotated[str | None, Query(max_length=100)] = None,
    options: Annotated[
        str, Query(max_length=4000, description="The cloud's options, as a JSON object.")
    ] = "{}",
) -> Response:
    """What a cloud sells now."""
    return answer({"items": site.client.offers(cloud, cloud_options(site, who, _read(options)))})


@router.post("/sweep", responses=gives(Strays))
def sweep(sent: Sweep, site: SiteOf, who: Boss, once: OncePer) -> Response:
    """List what costs money and belongs to no job at work; ended if asked for."""

    def act(_reserved: str) -> Response:
        strays = site.client.sweep(end=sent.end, others=sent.others)
        if sent.end:
            site.note(who.name, "sweep", ", ".join(stray.owned.task_id for stray in strays))
        return answer({"items": strays})

    return once.answer(act)


@router.get("/about", responses=gives(About))
def about(site: SiteOf, _who: Me) -> Response:
    """What this server is and knows."""
    return answer(
        {
            "version": __version__,
            "accounts": site.serve.accounts,
            "cloud": site.client.settings.cloud,
            "clouds": list(site.serve.clouds) or registry.names("clouds"),
            "strategies": registry.names("searchers"),
            "platforms": registry.names("platforms"),
            "upload_bytes": site.serve.upload_bytes,
        }
    )


def _read(options: str) -> dict[str, str]:
    try:
        return TypeAdapter(dict[str, str]).validate_python(json.loads(options))
    except (ValueError, ValidationError, RecursionError) as error:
        raise UserError("options: this is not a JSON object of texts.") from error
