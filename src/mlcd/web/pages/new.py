"""A new job in FC²'s four steps (code, model, data, resources), and what looking costs as the fifth."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from typing import Any

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from mlcd import registry
from mlcd.core.datasets import BUILTIN, data_sets
from mlcd.core.goal import Aim
from mlcd.core.job import SearchSettings
from mlcd.core.machines import Offer
from mlcd.errors import MlcdError
from mlcd.search.options import about, options_of
from mlcd.web.api.uploads import recorder_of, sender_of
from mlcd.web.auth import Actor, Editor, SiteOf
from mlcd.web.clouds import WARNING, clouds_of, is_barred, refuse_cloud
from mlcd.web.pages.examples import Example, example, examples, read_keys
from mlcd.web.pages.job_keys import form_keys, short_forms
from mlcd.web.pages.rendering import page
from mlcd.web.serialize import answer
from mlcd.web.site import Site
from mlcd.web.submission import Body
from mlcd.web.uploads import Received

router = APIRouter()

HOURLY = "usd_per_hour"  # the option of strategies that ask what all nodes may cost


@dataclass(frozen=True)
class Strategy:
    """A strategy to choose from."""

    name: str
    about: str
    hourly: bool  # whether the most that an hour may cost is an option of it


class FileText(Body):
    """A job file, or some keys of one."""

    text: str = Field(max_length=200_000)


@router.get("/new")
def new(request: Request, site: SiteOf, who: Editor) -> Response:
    """The steps on one page."""
    return page(
        request,
        who,
        "new.html",
        keys=form_keys(),
        short_forms=short_forms(),
        goals=[each.value for each in Aim],
        strategies=_strategies(),
        platforms=registry.names("platforms"),
        clouds=clouds_of(site, who),
        cloud=site.client.settings.cloud,
        barred=_barred(site, who),
        warning=WARNING,
        examples=examples(),
        datasets=[each for each in data_sets() if each.is_here],
        builtin=BUILTIN,
        uploads=site.service.uploads.page(who.name, None, 20),
        secrets=list(site.service.secrets(who.name)),
        instances=sorted({offer.instance.name for offer in _offers(site, who)}),
        upload_bytes=site.serve.upload_bytes,
    )


@router.post("/new/read")
def read(sent: FileText, _who: Editor) -> Response:
    """The keys in a job file's text."""
    return answer({"job": read_keys(sent.text)})


@router.post("/new/examples/{name}")
async def take_example(name: str, site: SiteOf, who: Editor) -> Response:
    """An example as an upload of one's own, with its job file."""
    chosen = example(name)
    site.sends.take(who.name)
    sender, chunks = sender_of(site, who), _chunks(chosen.packed())
    received = await site.uploads.receive(sender, f"{name}.tar", chunks, recorder_of(site, who))
    return await run_in_threadpool(_taken, site, chosen, received)


def _taken(site: Site, chosen: Example, received: Received) -> Response:
    job: dict[str, Any] = {key: value for key, value in chosen.job().items() if key != "workdir"}
    return answer({"job": job, "upload": asdict(received), "contents": site.uploads.contents(received.id)})


def _strategies() -> list[Strategy]:
    """Every strategy that is registered, the default first."""
    found = [_strategy(name) for name in registry.loadable("searchers")]
    return sorted(found, key=lambda each: each.name != SearchSettings.strategy)


def _strategy(name: str) -> Strategy:
    options = options_of(registry.load("searchers", name))
    return Strategy(name, about(name), any(each.name == HOURLY for each in options))


async def _chunks(content: bytes) -> AsyncIterator[bytes]:
    yield content


def _barred(site: Site, who: Actor) -> str:
    """The usual cloud, where it is not theirs to use."""
    cloud = site.client.settings.cloud
    return cloud if not who.is_admin and is_barred(site.client.settings, site.serve, cloud) else ""


def _offers(site: Site, who: Actor) -> list[Offer]:
    """What the usual cloud sells, for the choice by hand; one that cannot be asked now leaves it empty."""
    try:
        refuse_cloud(site, who, site.client.settings.cloud)
        site.asks.take(who.name)
        return site.client.offers()
    except MlcdError:
        return []
