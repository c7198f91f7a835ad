"""Clearing away what is over: unfinished and unused uploads, old answers, expired sessions."""

from __future__ import annotations

import logging
import time

from mlcd.web.idempotency import KEPT_SECONDS
from mlcd.web.site import Site

log = logging.getLogger("mlcd.web")

DAY_SECONDS = 86400.0


def clean_up(site: Site) -> None:
    """All of it; several servers may do so at once."""
    now = time.time()
    site.uploads.clear_stale()
    site.service.drop_requests(now - KEPT_SECONDS)
    site.accounts.drop_expired(now)
    expire_uploads(site, now - site.serve.upload_days * DAY_SECONDS)


def expire_uploads(site: Site, before: float) -> list[str]:
    """Take away uploads that nobody has sent or used since then and that no job speaks of.

    Among them are those that the database does not know: a server was killed while it took them away.
    """
    recorded = site.service.uploads
    old = recorded.unused_since(before) | (site.uploads.ids(before) - recorded.known())
    named = recorded.named_by_jobs() if old else set()
    for upload_id in old & named:
        recorded.renew(upload_id, time.time())  # all jobs need not be read for it again tomorrow
    gone = [upload_id for upload_id in sorted(old - named) if _take_away(site, upload_id, before)]
    if gone:
        log.info("deleted %d unused upload(s)", len(gone))
    return gone


def _take_away(site: Site, upload_id: str, before: float) -> bool:
    recorded = site.service.uploads
    if not site.uploads.take_away(upload_id, lambda: recorded.forget(upload_id, before)):
        return False
    site.note("", "upload expired", upload_id)
    return True
