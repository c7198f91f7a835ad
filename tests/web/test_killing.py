"""The server killed with SIGKILL in mid-job, during an upload and during a POST: nothing lost, nothing double."""

from __future__ import annotations

import http.client
import io
import os
import signal
import textwrap
import threading
import time
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from mlcd.core.run import JobState
from mlcd.remote import RemoteClient
from mlcd.store import open_store
from small_jobs import PROGRAM
from web.servers import Server, served

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with served(tmp_path_factory.mktemp("killed") / "home", "--posts-per-minute", "100000") as running:
        yield running
        RemoteClient(running.url).sweep(end=True, others=True)


@pytest.fixture
def job(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text(textwrap.dedent(PROGRAM))
    return {
        "name": "small",
        "workdir": str(tmp_path / "code"),
        "run": "python train.py",
        "work": {"samples": 3000},
        "goal": "fastest",
        "search": "exhaustive",
        "resources": {"instance_type": "local-1c"},
        "probe": {"warmup_seconds": 0.1, "min_seconds": 0.3, "max_seconds": 2, "silent_seconds": 5},
        "checkpoint": {"grace_seconds": 2},
    }


def test_a_training_goes_on_without_the_server_and_is_found_again(server: Server, job: dict[str, Any]) -> None:
    client = RemoteClient(server.url)
    job_id = client.submit(client.load(job))
    client.confirm(job_id)
    client.start(job_id)
    _await(lambda: client.view(job_id).record.state is JobState.TRAINING and client.view(job_id).live)
    controller = client.view(job_id).record.controller
    assert controller is not None
    before = len(client.events(job_id))
    server.kill()
    assert psutil.pid_exists(controller.pid), "the controller is no child that dies with the server"
    server.start()
    done = list(client.follow(job_id))[-1]
    assert done.record.state is JobState.SUCCEEDED, done.record.error
    assert len(done.run.attempts) == 1, "it was trained once"
    events = client.events(job_id)
    assert len(events) >= before
    assert [event.number for event in events] == list(range(1, len(events) + 1))


def test_a_job_whose_controller_died_with_the_server_is_taken_over(server: Server, job: dict[str, Any]) -> None:
    client = RemoteClient(server.url)
    job_id = client.submit(client.load(job))
    client.confirm(job_id)
    client.start(job_id)
    _await(lambda: client.view(job_id).record.controller)
    controller = client.view(job_id).record.controller
    server.kill()
    os.kill(controller.pid, 9)
    server.start()
    store_seen = _await(lambda: _controller_in_store(server, job_id) not in (None, controller.pid))
    assert store_seen, "the new server took it over before anybody asked"
    done = list(client.follow(job_id))[-1]
    assert done.record.state is JobState.SUCCEEDED, done.record.error


def test_a_post_cut_off_at_any_moment_makes_one_job(server: Server, job: dict[str, Any]) -> None:
    client = RemoteClient(server.url)
    loaded = client.load({**{key: job[key] for key in job if key != "workdir"}, "run": "true"})
    for round_, delay in enumerate((0.005, 0.03)):
        name = f"cut {round_}"
        made: list[str] = []

        def submit(name: str = name, made: list[str] = made) -> None:
            made.append(client.submit(replace(loaded, job=replace(loaded.job, name=name))))

        sender = threading.Thread(target=submit)
        sender.start()
        time.sleep(delay)
        server.kill()
        server.start()
        sender.join(60)
        assert len(made) == 1, "the client tried again with the same key"
        assert [line.id for line in client.lines(words=name).items] == made


def test_an_upload_cut_off_leaves_nothing_and_can_be_sent_again(server: Server) -> None:
    content = _zip()
    host, port = "127.0.0.1", server.port
    connection = http.client.HTTPConnection(host, port, timeout=20)
    connection.putrequest("POST", "/api/v1/uploads?name=cut.zip")
    connection.putheader("Content-Length", str(len(content)))
    connection.endheaders()
    connection.send(content[: len(content) // 2])
    incoming = server.home / "uploads" / "incoming"
    _await(lambda: incoming.is_dir() and any(path.stat().st_size for path in incoming.rglob("sent")))
    server.kill()
    connection.close()
    server.start()
    client = RemoteClient(server.url)
    assert "cut.zip" not in [item["name"] for item in client.connection.get("/uploads")["items"]]
    sent = client.connection.send("/uploads", io.BytesIO(content), name="cut.zip")
    assert sent["contents"]["scripts"] == ["train.py"]
    assert [item["name"] for item in client.connection.get("/uploads")["items"]].count("cut.zip") == 1


def test_a_server_told_to_end_sends_readers_home_and_ends_in_order(server: Server, job: dict[str, Any]) -> None:
    client = RemoteClient(server.url)
    job_id = client.submit(client.load({**job, "name": "followed"}))
    seen: list[bytes] = []
    reader = threading.Thread(
        target=lambda: seen.extend(client.connection.pieces(f"/jobs/{job_id}/stream")), daemon=True
    )
    reader.start()
    time.sleep(1.0)
    began = time.monotonic()
    assert server.end() in (0, -signal.SIGTERM)
    assert time.monotonic() - began < 8.0
    reader.join(10)
    assert not reader.is_alive()
    assert b"event: view" in b"".join(seen)
    server.start()


def _await(happened: Any, seconds: float = 60.0) -> Any:
    give_up_at = time.monotonic() + seconds
    while time.monotonic() < give_up_at:
        if found := happened():
            return found
        time.sleep(0.1)
    raise AssertionError("it did not happen")


def _controller_in_store(server: Server, job_id: str) -> int | None:
    """Read beside the server: asking it would have it look after the job."""
    store = open_store(f"sqlite:///{server.home / 'mlcd.db'}")
    try:
        controller = store.job(job_id).controller
        return None if controller is None else controller.pid
    finally:
        store.close()


def _zip() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("train.py", "x")
        archive.writestr("noise.bin", os.urandom(3_000_000))
    return stream.getvalue()
