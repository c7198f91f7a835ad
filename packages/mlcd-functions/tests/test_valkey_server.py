"""Valkey servers start without root, keep nothing, and end with whoever started them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from mlcd.sync import StoreLost
from mlcd.sync.store import as_bytes
from mlcd.sync.valkey.connection import Connection, Pipeline
from mlcd.sync.valkey.selector import PipelineSelector
from mlcd_functions.valkey_server import start_servers

pytestmark = pytest.mark.slow


def test_servers_have_a_password_a_limit_and_no_disk() -> None:
    with start_servers(count=2, memory_mb=64) as servers:
        assert len(servers.url.split(",")) == 2
        for url in servers.url.split(","):
            server = Connection(url)
            assert server.ask("CONFIG", "GET", "maxmemory")[1] == str(64 << 20).encode()
            assert server.ask("CONFIG", "GET", "maxmemory-policy")[1] == b"noeviction"
            assert server.ask("CONFIG", "GET", "save")[1] == b""
            server.close()
        password = servers.url.partition("@")[0].rpartition(":")[2]
        assert password not in repr(servers)
        for process in servers.processes:
            assert password not in Path(f"/proc/{process.pid}/cmdline").read_text()
    servers.stop()  # twice is quiet
    with pytest.raises(StoreLost):
        Connection(servers.url.partition(",")[0])
    assert not servers.folder.exists()


def test_servers_end_when_their_owner_is_killed() -> None:
    program = """
import sys, threading, time
from mlcd_functions.valkey_server import start_servers
kept = []
thread = threading.Thread(target=lambda: kept.append(start_servers()))  # a thread that ends does not take them along
thread.start(); thread.join(); time.sleep(0.3)
print(kept[0].processes[0].pid, kept[0].processes[0].poll(), flush=True)
time.sleep(600)
"""
    owner = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    pid, ended = owner.stdout.readline().split()
    assert ended == "None"
    os.kill(owner.pid, signal.SIGKILL)
    owner.wait()
    deadline = time.monotonic() + 60
    while is_alive(int(pid)):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_port_that_is_taken_is_reported() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(StoreLost, match="did not start"):
            start_servers(port=taken.getsockname()[1])


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_large_values_travel_between_arrays() -> None:
    import numpy as np

    with start_servers() as servers:
        pipeline = Pipeline(servers.url)
        pipelines = PipelineSelector([pipeline])
        sent = np.random.default_rng(0).random(300_000)
        pipeline.ask("SET", "large", as_bytes(sent))
        pipeline.ask("SET", "small", as_bytes(sent[:3]))
        got, few = np.zeros(300_000), np.zeros(3)
        found: list[Any] = []
        pipeline.ask("GET", "large", into=as_bytes(got), then=found.append)
        pipeline.ask("GET", "none", into=as_bytes(got), then=found.append)
        pipeline.ask("GET", "small", into=as_bytes(few), then=found.append)
        pipeline.ask("MGET", "none", "small", then=found.append)
        while len(found) < 4:
            assert pipelines.poll(60)
        np.testing.assert_array_equal(got, sent)
        np.testing.assert_array_equal(few, sent[:3])
        assert found[1] is None
        assert found[3] == [None, sent[:3].tobytes()]
        pipelines.close()


def test_servers_answer_at_their_sockets_in_the_file_system() -> None:
    with start_servers(memory_mb=16) as running:
        connection = Connection(running.socket_url)
        assert connection.ask("PING") == b"PONG"
        connection.close()
