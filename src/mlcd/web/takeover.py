"""Jobs go on when a server dies, and a server takes over what it finds: on start, and now and then."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import FrameType

from fastapi import FastAPI

from mlcd.errors import MlcdError
from mlcd.web.cleanup import clean_up
from mlcd.web.site import Site
from mlcd.web.streams import Hub

log = logging.getLogger("mlcd.web")

CLEANUP_SECONDS = 3600.0


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """From the first request to the last."""
    site: Site = app.state.site
    end_streams_on_signal(site.hub)
    tasks = [asyncio.create_task(_watch(site)), asyncio.create_task(_keep_clean(site))]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        site.close()


def end_streams_on_signal(hub: Hub) -> None:
    """Send readers home before the server waits for their connections to end."""
    if threading.current_thread() is not threading.main_thread():
        return
    for number in (signal.SIGTERM, signal.SIGINT):
        before = signal.getsignal(number)

        def ending(signum: int, frame: FrameType | None, before: object = before) -> None:
            hub.close()
            if callable(before):
                before(signum, frame)

        signal.signal(number, ending)


async def _watch(site: Site) -> None:
    while True:
        try:
            taken = await asyncio.to_thread(site.client.revive)
        except MlcdError as error:
            log.warning("cannot take over jobs now: %s", error.message)
        else:
            if taken:
                log.info("took over %d job(s) without a controller", taken)
        await asyncio.sleep(site.serve.watch_seconds)


async def _keep_clean(site: Site) -> None:
    while True:
        try:
            await asyncio.to_thread(clean_up, site)
        except (MlcdError, OSError) as error:
            log.warning("cannot clean up now: %s", error)
        await asyncio.sleep(CLEANUP_SECONDS)
