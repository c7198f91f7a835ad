"""One server for many tests: starting one takes seconds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mlcd.api import Client
from mlcd.clouds.local.settings import LocalSettings
from mlcd.settings import Settings
from web.servers import Server, served

TRACE = """workload,instance,nodes,throughput,usd_per_node_hour,status
toy,slow,1,100,0.10,ok
toy,slow,2,190,0.10,ok
toy,slow,4,340,0.10,ok
toy,fast,1,400,0.90,ok
toy,fast,2,700,0.90,ok
toy,fast,4,,0.90,failed
"""


@pytest.fixture(scope="session")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("traces") / "trace.csv"
    file.write_text(TRACE)
    return file


@pytest.fixture(scope="session")
def open_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server on loopback, without accounts."""
    home = tmp_path_factory.mktemp("open") / "home"
    with served(home, "--posts-per-minute", "100000", "--uploads-per-minute", "100000") as server:
        yield server
    _sweep(home)


def _sweep(home: Path) -> None:
    client = Client(Settings(home=home, clouds=(LocalSettings(cores=2),)))
    client.sweep(end=True, others=True)
    client.close()
