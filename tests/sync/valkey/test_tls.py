"""Gradients travel encrypted to a store behind TLS, as the ones that clouds sell are."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from mlcd.sync import Group
from mlcd_functions.valkey_server import Servers
from sync.conftest import run_workers

pytestmark = pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not installed")


@pytest.fixture
def tls_url(servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The first server behind a door that speaks TLS; the bundled Valkey does not."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    wanted = ("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost")
    files = ("-keyout", str(key), "-out", str(certificate))
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *wanted, *files],
        check=True,
        capture_output=True,
    )
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    first = servers.url.partition(",")[0]
    password, _, address = first.removeprefix("redis://").rpartition("@")
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    opening = asyncio.run_coroutine_threadsafe(open_door(context, int(address.rpartition(":")[2])), loop)
    yield f"rediss://{password}@localhost:{opening.result(60)}"
    loop.call_soon_threadsafe(loop.stop)


async def open_door(context: ssl.SSLContext, port: int) -> int:
    """Pass everything on that comes here through TLS; gives the port."""

    async def come(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(pass_on(reader, inner_writer), pass_on(inner_reader, writer))

    door = await asyncio.start_server(come, "127.0.0.1", 0, ssl=context)
    return int(door.sockets[0].getsockname()[1])


async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()


def test_large_gradients_are_summed_through_tls(tls_url: str) -> None:
    def work(group: Group) -> list[float]:
        array = np.full(1_000_000, group.rank + 1.0, np.float32)
        group.all_reduce(array)
        return [float(array.min()), float(array.max())]

    assert run_workers(tls_url, 2, work) == [[3.0, 3.0]] * 2
