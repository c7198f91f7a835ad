"""Uploads: whose they are, how much they may take, and what happens when the disk is full."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import io
import tempfile
import threading
import zipfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from httpx import Request, Response
from starlette import formparsers

from mlcd.errors import TooManyRequestsError
from mlcd.web import archives, uploads
from mlcd.web.site import Site
from web.people import Person, hire, open_test_site, set_up

JOB = {"name": "j", "run": "cat a.csv", "work": {"samples": 1}, "resources": {"instance_type": "local-1c"}}


@dataclass(frozen=True)
class Team:
    site: Site
    ada: Person
    bob: Person

    @property
    def folder(self) -> Path:
        return self.site.client.settings.home / "uploads"


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Team]:
    site = open_test_site(tmp_path / "home", upload_bytes=300_000, upload_quota_bytes=400_000)
    admin = set_up(site)
    yield Team(site, hire(site, admin, "ada"), hire(site, admin, "bob"))
    site.close()


def zeros(size: int) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", b"0" * size)
    return stream.getvalue()


def send(person: Person, content: bytes, name: str) -> Any:
    return person.post("/uploads", content=content, params={"name": name})


async def parts(content: bytes, until: asyncio.Event | None = None) -> AsyncIterator[bytes]:
    yield content
    if until is not None:
        await until.wait()


def test_the_same_bytes_under_another_name_are_another_upload(team: Team) -> None:
    first, second = send(team.ada, b"1,2", "a.csv"), send(team.ada, b"1,2", "b.csv")
    assert first["upload"]["id"] != second["upload"]["id"]
    for sent, name in ((first, "a.csv"), (second, "b.csv")):
        mounts = {"x.csv": f"upload:{sent['upload']['id']}/{name}"}
        team.ada.post("/check", {"job": {**JOB, "file_mounts": mounts}})


def test_the_same_bytes_of_somebody_else_are_theirs(team: Team) -> None:
    theirs = send(team.ada, b"1,2", "salaries-of-ada.csv")["upload"]["id"]
    mine = send(team.bob, b"1,2", "rows.csv")["upload"]["id"]
    assert mine != theirs
    assert team.bob("GET", f"/uploads/{theirs}").status_code == 404
    answer = team.bob("POST", "/check", {"job": {**JOB, "file_mounts": {"x": f"upload:{mine}/missing.csv"}}})
    assert "salaries-of-ada" not in answer.text
    assert send(team.bob, b"1,2", "rows.csv")["upload"]["id"] == mine


def test_what_was_sent_before_is_found_by_its_content(team: Team) -> None:
    content = zeros(100)
    digest = hashlib.sha256(content).hexdigest()
    assert team.ada("GET", f"/uploads/by-content/{digest}", params={"name": "code.zip"}).status_code == 404
    sent = send(team.ada, content, "code.zip")["upload"]["id"]
    found = team.ada.get(f"/uploads/by-content/{digest}", params={"name": "code.zip"})
    assert found["upload"]["id"] == sent
    assert team.bob("GET", f"/uploads/by-content/{digest}", params={"name": "code.zip"}).status_code == 404


def test_an_account_has_a_quota_and_nothing_stays_of_what_is_beyond(team: Team) -> None:
    for number in range(10):
        send(team.ada, bytes([number]) * 30_000, f"{number}.bin")
    answer = team.ada("POST", "/uploads", content=b"x" * 150_000, params={"name": "more.bin"})
    assert answer.status_code == 413
    assert "Your uploads may take" in answer.json()["error"]["message"]
    assert list((team.folder / "incoming").iterdir()) == []
    send(team.ada, b"0" * 30_000, "8.bin")
    send(team.bob, b"x" * 150_000, "more.bin")


def test_what_was_sent_twice_counts_once(team: Team) -> None:
    for _ in range(20):
        send(team.ada, b"x" * 50_000, "same.bin")


def test_the_quota_counts_what_is_unpacked_and_each_file(team: Team) -> None:
    packed = zeros(390_000)
    assert len(packed) < 5000
    send(team.ada, packed, "one.zip")
    assert team.ada("POST", "/uploads", content=packed, params={"name": "two.zip"}).status_code == 413
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for number in range(200):
            archive.writestr(f"f{number}", "")
    many = team.bob("POST", "/uploads", content=stream.getvalue(), params={"name": "many.zip"})
    assert many.status_code == 413
    assert list((team.folder / "incoming").iterdir()) == []


def test_uploads_are_rate_limited(tmp_path: Path) -> None:
    site = open_test_site(tmp_path / "home", accounts=False, insecure=True, uploads_per_minute=3)
    me = Person(site)
    codes = [me("POST", "/uploads", content=f"{n}".encode()).status_code for n in range(4)]
    assert codes == [201, 201, 201, 429]
    site.close()


def test_what_is_on_its_way_counts_until_it_is_in_place(tmp_path: Path) -> None:
    kept = uploads.Uploads(tmp_path, most_bytes=20_000, most_unpacked=20_000)
    ada = uploads.Sender("ada", ids=list, most_bytes=20_000)
    placed, go_on = threading.Event(), threading.Event()

    def record(_received: uploads.Received) -> None:
        placed.set()
        go_on.wait(60)

    first = threading.Thread(target=lambda: asyncio.run(kept.receive(ada, "a", parts(b"a" * 12_000), record)))
    first.start()
    assert placed.wait(60)
    with pytest.raises(uploads.QuotaError):
        asyncio.run(kept.receive(ada, "b", parts(b"b" * 12_000), lambda _: None))
    go_on.set()
    first.join()


def test_an_account_does_not_send_many_at_once(tmp_path: Path) -> None:
    kept = uploads.Uploads(tmp_path, most_bytes=100, most_unpacked=100)
    ada = uploads.Sender("ada", ids=list, most_bytes=10**6)

    async def send_one_more() -> None:
        all_sent = asyncio.Event()
        names = [f"{number}.bin" for number in range(uploads.MOST_AT_ONCE)]
        sent = [
            asyncio.create_task(kept.receive(ada, name, parts(b"x", until=all_sent), lambda _: None)) for name in names
        ]
        while len(list(tmp_path.glob("incoming/*/sent"))) < len(sent):
            await asyncio.sleep(0.01)
        with pytest.raises(TooManyRequestsError):
            await kept.receive(ada, "more", parts(b"x"), lambda _: None)
        await kept.receive(uploads.Sender("bob", ids=list, most_bytes=10**6), "b", parts(b"x"), lambda _: None)
        all_sent.set()
        await asyncio.gather(*sent)
        await kept.receive(ada, "more", parts(b"x"), lambda _: None)

    asyncio.run(send_one_more())
    assert list((tmp_path / "incoming").iterdir()) == []


@pytest.fixture
def put_aside(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of each piece of a form that was written to a file of its own."""
    written: list[int] = []

    class Spool(tempfile.SpooledTemporaryFile[bytes]):
        def write(self, data: Any) -> int:
            written.append(len(data))
            return super().write(data)

    monkeypatch.setattr(formparsers, "SpooledTemporaryFile", Spool)
    return written


def send_form(person: Person, content: bytes, announced: bool = True) -> Response:
    """As a browser sends a form; without its length, as a stream in pieces."""
    form = Request("POST", "http://x", files={"file": ("a.bin", content)})
    body = form.read()
    sent = body if announced else iter([body[place : place + 50_000] for place in range(0, len(body), 50_000)])
    return person("POST", "/uploads", content=sent, headers={"Content-Type": form.headers["content-type"]})


@pytest.mark.parametrize("announced", [True, False])
def test_a_form_beyond_the_quota_is_not_even_put_aside(team: Team, put_aside: list[int], announced: bool) -> None:
    for number in range(10):
        send(team.ada, bytes([number]) * 30_000, f"{number}.bin")
    assert send_form(team.ada, b"x" * 20_000, announced).status_code == 201
    put_aside.clear()
    answer = send_form(team.ada, b"x" * 250_000, announced)
    assert answer.status_code == 413
    assert "Your uploads may take" in answer.json()["error"]["message"]
    assert sum(put_aside) <= (0 if announced else 80_000)


def test_a_form_is_one_of_the_few_uploads_at_once(team: Team, put_aside: list[int]) -> None:
    ada = uploads.Sender("ada", ids=list, most_bytes=10**6)

    async def send_one_more() -> Response:
        async with AsyncExitStack() as others:
            for _ in range(uploads.MOST_AT_ONCE):
                await others.enter_async_context(team.site.uploads.arriving(ada))
            return await asyncio.to_thread(send_form, team.ada, b"x")

    assert asyncio.run(send_one_more()).status_code == 429
    assert put_aside == []
    assert send_form(team.ada, b"x").status_code == 201


@pytest.mark.parametrize("where", ["sync", "unpack"])
def test_a_full_disk_is_told_and_nothing_stays(team: Team, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(team.folder / "incoming" / "x"))

    with monkeypatch.context() as patched:
        patched.setattr(*((uploads, "_sync", no_room) if where == "sync" else (archives, "write_entry", no_room)))
        answer = team.ada("POST", "/uploads", content=zeros(10), params={"name": "code.zip"})
    assert answer.status_code == 507
    assert "The server's disk is full" in answer.json()["error"]["message"]
    assert str(team.folder) not in answer.text
    assert list((team.folder / "incoming").iterdir()) == []
    assert [path for path in team.folder.iterdir() if len(path.name) == 64] == []
    assert team.ada.get("/uploads")["items"] == []
    send(team.ada, zeros(10), "code.zip")
