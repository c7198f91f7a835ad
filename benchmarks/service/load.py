"""How the service bears up: lists of many jobs, requests a second, and hundreds who follow live jobs.

    python benchmarks/service/load.py [--jobs 100000] [--points 10000000] [--clients 500] [--pages 1000] [--live 20]
        [--seconds 20]

One server (`mlcd serve`, SQLite) in a process of its own; this process is the clients and, to the server, the controllers of
the live jobs. Prints a table, and with --json the figures.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import resource
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from filling import Size, add_live_jobs, fill, job_record, live

from mlcd.core.run import JobState
from mlcd.store import Store, open_store

MIB = 2**20
STAMP = re.compile(rb"written at ([0-9.]+)\.")


def main() -> None:
    """Fill, serve, measure, tell."""
    wanted = arguments()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4096)), hard))
    with tempfile.TemporaryDirectory(prefix="mlcd-load-", dir=wanted.folder) as folder:
        home = Path(folder)
        url = f"sqlite:///{home / 'mlcd.db'}"
        store = open_store(url)
        size = Size(wanted.jobs, wanted.points)
        filled = fill(url, size)
        ids = add_live_jobs(store, wanted.live)
        found: dict[str, Any] = {"jobs": size.jobs, "points": size.points, "fill_seconds": round(filled, 1)}
        found["database_mib"] = round((home / "mlcd.db").stat().st_size / MIB)
        with server(home) as (port, process):
            found |= asyncio.run(measure(port, process, store, ids, wanted))
        store.close()
    sys.stdout.write(json.dumps(found, indent=1) + "\n" if wanted.json else table(found))


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name, default in (
        ("jobs", 100_000),
        ("points", 10_000_000),
        ("clients", 500),
        ("pages", 1000),
        ("live", 20),
    ):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--requests", type=int, default=60, help="of each list")
    parser.add_argument("--concurrent", type=int, default=17, help="requests at once, for requests a second")
    parser.add_argument("--seconds", type=float, default=20.0, help="that live jobs are followed")
    parser.add_argument("--folder", help="where the store is made")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


async def measure(
    port: int, process: psutil.Process, store: Store, ids: list[str], wanted: argparse.Namespace
) -> dict[str, Any]:
    """Lists one by one, then many at once, then followers."""
    middle = job_record(wanted.jobs // 2, JobState.SUCCEEDED).id
    with_curves = job_record(0, JobState.SUCCEEDED).id
    lists = {
        "GET /api/v1/jobs": "/api/v1/jobs",
        "GET /api/v1/jobs, deep in the list": f"/api/v1/jobs?cursor={wanted.jobs // 2}",
        "GET /api/v1/jobs?state=failed": "/api/v1/jobs?state=failed",
        "GET /api/v1/jobs?q=model-7": "/api/v1/jobs?q=model-7",
        "GET /api/v1/jobs?q=nothing": "/api/v1/jobs?q=nothing-like-it",
        "GET /api/v1/models": "/api/v1/models",
        "GET /api/v1/history": "/api/v1/history",
        "GET /api/v1/jobs/ID": f"/api/v1/jobs/{middle}",
        "GET /api/v1/jobs/ID/story, with curves": f"/api/v1/jobs/{with_curves}/story",
        "page /jobs": "/jobs",
        "GET /health": "/health",
    }
    found: dict[str, Any] = {"memory_at_start_mib": round(process.memory_info().rss / MIB)}
    found["lists"] = {name: await timed(port, path, wanted.requests) for name, path in lists.items()}
    for name in ("GET /api/v1/jobs", "GET /api/v1/jobs/ID", "GET /health"):
        found[f"requests a second: {name}"] = await rate(port, lists[name], wanted.concurrent)
    found["writes, nobody follows (ms)"] = await asyncio.to_thread(written, store, ids, 3.0, None)
    found["followers"] = await follow(port, store, ids, wanted, read_stream, wanted.clients)
    found["memory_with_followers_mib"] = round(process.memory_info().rss / MIB)
    found["pages"] = await follow(port, store, ids, wanted, read_page, wanted.pages)
    found["memory_at_end_mib"] = round(process.memory_info().rss / MIB)
    return found


async def timed(port: int, path: str, times: int) -> dict[str, float]:
    """Milliseconds of one request after the other."""
    took = []
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for _ in range(times):
        began = time.perf_counter()
        await ask(reader, writer, path)
        took.append(1000 * (time.perf_counter() - began))
    writer.close()
    return spread(took)


async def rate(port: int, path: str, concurrent: int, seconds: float = 5.0) -> float:
    """Requests a second, so many at once."""
    until, done = time.perf_counter() + seconds, 0

    async def one() -> None:
        nonlocal done
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while time.perf_counter() < until:
            await ask(reader, writer, path)
            done += 1
        writer.close()

    await asyncio.gather(*(one() for _ in range(concurrent)))
    return round(done / seconds, 1)


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str) -> bytes:
    """One GET on an open connection."""
    writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    if " 200 " not in head.splitlines()[0]:
        raise RuntimeError(f"{path}: {head.splitlines()[0]}")
    length = next(line for line in head.splitlines() if line.startswith("content-length:"))
    return await reader.readexactly(int(length.partition(":")[2]))


@dataclass
class Heard:
    """What the followers got."""

    events: int = 0  # of pages: times that one was drawn anew with a newer event
    delays: list[float] = field(default_factory=list)  # milliseconds from writing to reading
    connected: int = 0
    broken: int = 0


Reader = Callable[[int, str, Heard], Coroutine[Any, Any, None]]


async def follow(
    port: int, store: Store, ids: list[str], wanted: argparse.Namespace, read: Reader, count: int
) -> dict[str, Any]:
    """Many readers of few live jobs, while the jobs are written to and lists are asked for."""
    heard = Heard()
    readers = [asyncio.create_task(read(port, ids[number % len(ids)], heard)) for number in range(count)]
    while heard.connected + heard.broken < count:
        await asyncio.sleep(0.1)
    events: list[float] = []
    writing = asyncio.create_task(asyncio.to_thread(written, store, ids, wanted.seconds, events))
    lists = await timed(port, "/api/v1/jobs", wanted.requests)
    writes = await writing
    await asyncio.sleep(3.0)
    for reader in readers:
        reader.cancel()
    await asyncio.gather(*readers, return_exceptions=True)
    due = len(events) * count // len(ids)
    return {
        "connected": heard.connected,
        "broken": heard.broken,
        "events due": due,
        "events read": heard.events,
        "delay (ms)": spread(heard.delays),
        "GET /api/v1/jobs meanwhile (ms)": lists,
        "writes meanwhile (ms)": writes,
    }


async def read_stream(port: int, job_id: str, heard: Heard) -> None:
    """One reader of events, as a script is."""
    async for line in lines(port, f"/api/v1/jobs/{job_id}/stream", heard):
        if b'"written_at": ' in line:
            at = float(line.partition(b'"written_at": ')[2].split(b"}")[0])
            heard.events += 1
            heard.delays.append(1000 * (time.time() - at))


async def read_page(port: int, job_id: str, heard: Heard) -> None:
    """One reader of a job's page, as a browser is: it is sent what is drawn anew."""
    newest = time.time()  # what was written before is no news
    async for line in lines(port, f"/live/jobs/{job_id}", heard):
        at = max((float(found) for found in STAMP.findall(line)), default=0.0)
        if at > newest:
            newest = at
            heard.events += 1
            heard.delays.append(1000 * (time.time() - at))


async def lines(port: int, path: str, heard: Heard) -> AsyncIterator[bytes]:
    """The data of a stream."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**22)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        assert b" 200 " in head.splitlines()[0], head
        heard.connected += 1
        while line := await reader.readline():
            if line.startswith(b"data: "):
                yield line
    except (OSError, asyncio.IncompleteReadError, AssertionError):
        heard.broken += 1


def written(store: Store, ids: list[str], seconds: float, events: list[float] | None) -> dict[str, float]:
    """What controllers do: each second, for each job, the live view and an event. Milliseconds of each pair.

    Events are stamped only where they are counted: readers are also given what was written before they came.
    """
    took, until, samples = [], time.monotonic() + seconds, 0.0
    while time.monotonic() < until:
        began = time.monotonic()
        for job_id in ids:
            start = time.perf_counter()
            store.put_live(job_id, live(job_id, samples))
            stamp = {} if events is None else {"written_at": time.time()}
            words = f"written at {stamp['written_at']}." if stamp else "a second more"
            store.add_event(job_id, time.time(), "progress", words, stamp)
            took.append(1000 * (time.perf_counter() - start))
            if events is not None:
                events.append(time.time())
        samples += 256.0
        time.sleep(max(0.0, 1.0 - (time.monotonic() - began)))
    return spread(took)


def spread(values: list[float]) -> dict[str, float]:
    """Median, 95th percentile and the largest."""
    if not values:
        return {}
    ordered = sorted(values)
    late = ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
    return {
        "median": round(statistics.median(ordered), 1),
        "p95": round(late, 1),
        "most": round(ordered[-1], 1),
    }


@contextmanager
def server(home: Path) -> Iterator[tuple[int, psutil.Process]]:
    """`mlcd serve` on a free port, ended afterwards."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    command = [sys.executable, "-m", "mlcd.cli.main", "serve", "--port", str(port)]
    with (home / "server.log").open("wb") as log:
        child = subprocess.Popen(
            command,
            env={**os.environ, "MLCD_HOME": str(home)},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        wait_for(port, child)
        yield port, psutil.Process(child.pid)
    finally:
        child.send_signal(signal.SIGTERM)
        killer = threading.Timer(20.0, child.kill)
        killer.start()
        child.wait()
        killer.cancel()


def wait_for(port: int, child: subprocess.Popen[bytes]) -> None:
    """Until it listens."""
    for _ in range(1200):
        try:
            socket.create_connection(("127.0.0.1", port), 1.0).close()
            return
        except OSError:
            if child.poll() is not None:
                raise RuntimeError("the server ended") from None
            time.sleep(0.1)
    raise RuntimeError("the server did not start")


def table(found: dict[str, Any]) -> str:
    """The figures as Markdown."""
    lists = found.pop("lists")
    followers = {f"followers: {name}": value for name, value in found.pop("followers").items()}
    followers |= {f"pages: {name}": value for name, value in found.pop("pages").items()}
    lines = ["| list | median ms | p95 ms | most ms |", "|---|---|---|---|"]
    lines += [f"| {name} | {one['median']} | {one['p95']} | {one['most']} |" for name, one in lists.items()]
    lines += ["", "| | |", "|---|---|"]
    lines += [f"| {name} | {value} |" for name, value in {**found, **followers}.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
