"""Uploads that nobody uses are taken away, and never one that somebody needs."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from mlcd.web import uploads as uploads_module
from mlcd.web.cleanup import DAY_SECONDS, clean_up, expire_uploads
from mlcd.web.site import Site
from mlcd.web.uploads import Received, Sender
from web.people import Person, open_test_site

JOB = {"name": "user", "run": "cat note.txt", "work": {"samples": 1}}
OLD_SECONDS = 8 * DAY_SECONDS


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = open_test_site(tmp_path / "home", accounts=False)
    yield made
    made.close()


@pytest.fixture
def me(site: Site) -> Person:
    person = Person(site)
    person.http.base_url = "http://localhost"
    return person


def test_an_upload_that_nobody_uses_goes_after_a_week(site: Site, me: Person) -> None:
    old, fresh = _send(me, "old"), _send(me, "fresh")
    _age(site, old)
    clean_up(site)
    assert not _place(site, old).exists()
    assert me("GET", f"/uploads/{old}").status_code == 404
    assert [item["id"] for item in me.get("/uploads")["items"]] == [fresh]
    assert _place(site, fresh).is_dir()
    assert ("upload expired", old) in [(line.action, line.thing) for line in site.service.audit(None, 9)]


@pytest.mark.parametrize("role", ["code", "mount", "trace"])
def test_an_upload_that_a_job_speaks_of_stays(site: Site, me: Person, role: str) -> None:
    used = _send(me, "used")
    sent: dict[str, Any] = {
        "code": {"job": JOB, "code": used},
        "mount": {"job": {**JOB, "file_mounts": {"data": f"upload:{used}"}}},
        "trace": {"job": JOB, "cloud": "replay", "cloud_options": {"trace": f"upload:{used}/x.csv"}},
    }[role]
    if role == "trace":
        (_place(site, used) / "content" / "x.csv").write_text(
            "workload,instance,nodes,throughput,usd_per_node_hour,status\nw,slow,1,100,0.1,ok\n"
        )
    me.post("/jobs", sent)
    _age(site, used)
    assert expire_uploads(site, time.time() - 7 * DAY_SECONDS) == []
    assert _place(site, used).is_dir()
    assert site.service.uploads.unused_since(time.time() - DAY_SECONDS) == set(), "renewed"


def test_looking_at_an_old_upload_renews_it(site: Site, me: Person) -> None:
    upload = _send(me, "looked at")
    _age(site, upload)
    me.get(f"/uploads/{upload}")
    clean_up(site)
    assert _place(site, upload).is_dir()


def test_an_upload_that_is_used_while_it_expires_stays(site: Site, me: Person) -> None:
    """A POST finds its upload after the server decided that it is old, and before it is taken away."""
    upload = _send(me, "late")
    _age(site, upload)
    book = site.service.uploads

    def forget() -> bool:
        me.post("/jobs", {"job": JOB, "code": upload})
        return book.forget(upload, time.time() - DAY_SECONDS)

    assert not site.uploads.take_away(upload, forget)
    assert _place(site, upload).is_dir()


def test_nothing_is_taken_away_while_somebody_sends_the_same(site: Site, me: Person) -> None:
    """The sender finds the content in place; it must not go before the sender is in the books."""
    upload = _send(me, "twice")
    _age(site, upload)
    found, go_on = threading.Event(), threading.Event()

    def book(received: Received) -> None:
        found.set()
        assert go_on.wait(60)

    sender = threading.Thread(target=lambda: asyncio.run(_receive(site, b"twice", book)))
    sender.start()
    assert found.wait(60)
    assert expire_uploads(site, time.time() - DAY_SECONDS) == []
    assert _place(site, upload).is_dir()
    go_on.set()
    sender.join()
    assert expire_uploads(site, time.time() - DAY_SECONDS) == [upload]


def test_content_that_nobody_knows_of_goes_too(site: Site, me: Person) -> None:
    upload = _send(me, "orphan")
    assert site.service.uploads.forget(upload, time.time() + 1.0)
    clean_up(site)
    assert _place(site, upload).is_dir(), "it may be on its way into the books"
    os.utime(_place(site, upload), (0.0, 0.0))
    clean_up(site)
    assert not _place(site, upload).exists()


def test_an_unfinished_upload_goes_once_nothing_arrives_any_more(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    incoming = site.client.settings.home / "uploads" / "incoming"
    for name in ("left", "slow"):
        (incoming / name).mkdir(parents=True)
        (incoming / name / "sent").write_text("half")
        os.utime(incoming / name, (0.0, 0.0))
    os.utime(incoming / "left" / "sent", (0.0, 0.0))
    monkeypatch.setattr(uploads_module, "STALE_SECONDS", 3600.0)
    clean_up(site)
    assert [path.name for path in incoming.iterdir()] == ["slow"]


def _send(me: Person, text: str) -> str:
    return str(me.post("/uploads", content=text.encode(), params={"name": "note.txt"})["upload"]["id"])


async def _receive(site: Site, content: bytes, book: Any) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield content

    await site.uploads.receive(Sender("", tuple), "note.txt", chunks(), book)


def _age(site: Site, upload: str) -> None:
    site.service.uploads.renew(upload, time.time() - OLD_SECONDS)


def _place(site: Site, upload: str) -> Path:
    return site.client.settings.home / "uploads" / upload
