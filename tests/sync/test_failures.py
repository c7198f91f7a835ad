"""Killed workers, killed stores and full stores end in clear errors, and the next generation goes on."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlcd.sync import Group, StaleWorker, StoreFull, StoreLost, SyncError, SyncTimeout, join, remove_task
from mlcd.sync.shm.segment import Segment
from mlcd.sync.store import SLOTS
from mlcd.sync.timeouts import really_missing
from mlcd.sync.valkey.connection import Connection
from mlcd_functions.valkey_server import Servers, start_servers
from sync.conftest import run_workers

pytestmark = pytest.mark.slow

_FORK = multiprocessing.get_context("fork")
_SIZE = 1_000_000


def reduce_for_ever(group: Group) -> None:
    while True:
        array = np.full(_SIZE, group.rank + 1.0, np.float32)
        group.all_reduce(array)
        assert (array == 6.0).all()


def outcomes(url: str, ranks: list[int], work: Callable[[Group], Any], **options: Any) -> list[SyncError]:
    """How the workers end, each with an error."""

    def one(rank: int) -> SyncError:
        try:
            with join(url, rank, **options) as group:
                work(group)
        except SyncError as error:
            return error
        raise AssertionError("this worker should not have come to an end")

    with ThreadPoolExecutor(len(ranks)) as pool:
        return list(pool.map(one, ranks))


def start_worker(url: str, rank: int, **options: Any) -> Any:
    def work() -> None:
        with join(url, rank, **options) as group:
            reduce_for_ever(group)

    process = _FORK.Process(target=work, daemon=True)
    process.start()
    return process


def test_a_worker_killed_in_mid_reduce_is_named_by_all_others_and_a_new_generation_goes_on(
    store_url: str, group_name: str
) -> None:
    options = {"world_size": 3, "name": group_name, "timeout_s": 5.0}
    victim = start_worker(store_url, 1, **options)
    reduced = []

    def reduce_and_kill(group: Group) -> None:
        for iteration in range(100_000):
            array = np.full(_SIZE, group.rank + 1.0, np.float32)
            group.all_reduce(array)
            reduced.append((array == 6.0).all())
            if iteration == 5 and group.rank == 0:
                os.kill(victim.pid, signal.SIGKILL)

    errors = outcomes(store_url, [0, 2], reduce_and_kill, **options)
    victim.join()
    assert all(reduced)
    for error in errors:
        assert isinstance(error, SyncTimeout)
        assert error.ranks == (1,)
        assert "rank 1" in str(error)
    results = run_workers(
        store_url, 3, lambda group: group.all_gather(np.array(group.rank)), name=group_name, generation=1
    )
    assert [list(result) for result in results] == [[0, 1, 2]] * 3


def test_a_failed_group_repeats_its_error(store_url: str, group_name: str) -> None:
    group = join(store_url, 0, 2, name=group_name, timeout_s=0.5)
    for _ in range(2):
        with pytest.raises(SyncTimeout) as caught:
            group.barrier()
        assert caught.value.ranks == (1,)
    group.close()


def test_a_worker_of_an_older_generation_is_sent_home(store_url: str, group_name: str) -> None:
    old = join(store_url, 0, 2, name=group_name, timeout_s=120.0)
    new = join(store_url, 1, 2, 1, name=group_name, timeout_s=1.0)
    old.timeout_s = 4.0
    with pytest.raises(StaleWorker):
        old.barrier()
    with pytest.raises(StaleWorker):
        join(store_url, 0, 2, 0, name=group_name)
    old.close()
    new.close()


def test_tasks_that_share_a_server_do_not_meet_and_each_is_cleared_up_alone(group_name: str) -> None:
    with start_servers() as servers:

        def work(group: Group) -> float:
            array = np.full(200_000, 1.0 if group.world_size == 2 else 10.0, np.float32)
            for _ in range(5):
                group.all_reduce(array, op="mean")
            group._failure = KeyboardInterrupt()  # nothing is cleaned up
            return float(array[0])

        with ThreadPoolExecutor(2) as pool:
            ends = [
                pool.submit(run_workers, servers.url, size, work, name=group_name, task=f"task-{size}")
                for size in (2, 3)
            ]
            assert [each.result() for each in ends] == [[1.0] * 2, [10.0] * 3]
        server = Connection(servers.url)
        lasting = [key for key in server.ask("KEYS", "*") if server.ask("TTL", key) < 0]
        assert not lasting
        remove_task(servers.url, "task-2")
        assert {key.split(b":")[1] for key in server.ask("KEYS", "*")} == {b"task-3"}
        remove_task(servers.url, "task-3")
        assert server.ask("DBSIZE") == 0
        server.close()


def test_a_new_generation_removes_what_older_ones_have_left(group_name: str) -> None:
    with start_servers() as servers:

        def leave_all_behind(group: Group) -> None:
            group.all_reduce(np.ones(_SIZE, np.float32))
            group._failure = KeyboardInterrupt()  # nothing is cleaned up

        run_workers(servers.url, 2, leave_all_behind, name=group_name)
        server = Connection(servers.url)
        assert server.ask("DBSIZE") > 5
        last = join(servers.url, 1, 2, 7, name=group_name)  # whoever comes first
        first = join(servers.url, 0, 2, 7, name=group_name)
        assert not [key for key in server.ask("KEYS", "*") if f"{group_name}:0:".encode() in key]
        for group in (first, last):
            group._failure = KeyboardInterrupt()
            group.close()
        server.close()


def test_what_a_stale_worker_sends_reaches_nobody(store_url: str, group_name: str) -> None:
    stale = join(store_url, 0, 2, name=group_name)

    def work(group: Group) -> np.ndarray:
        if group.rank == 1:
            stale._exchange._upload([np.full(9, 99.0)] * 2, 0)  # a function that was thought dead goes on
        array = np.ones(9)
        group.all_reduce(array)
        return array

    for result in run_workers(store_url, 2, work, name=group_name, generation=1):
        np.testing.assert_array_equal(result, np.full(9, 2.0))
    stale._failure = StaleWorker("")
    stale.close()


def test_a_worker_restarted_at_an_iteration_boundary_goes_on_in_the_same_generation(
    store_url: str, group_name: str
) -> None:
    def iterate(group: Group, iterations: range) -> list[float]:
        sums = []
        for iteration in iterations:
            array = np.full(200_000, float(group.rank + iteration), np.float32)
            group.all_reduce(array)
            assert (array == array[0]).all()
            sums.append(float(array[0]))
        return sums

    def stays(rank: int) -> list[float]:
        with join(store_url, rank, 3, name=group_name, timeout_s=60.0) as group:
            return iterate(group, range(9))

    def is_restarted(rank: int) -> list[float]:
        sums: list[float] = []
        position = 0
        for start in (0, 3, 6):
            group = join(store_url, rank, 3, name=group_name, timeout_s=60.0, position=position)
            sums += iterate(group, range(start, start + 3))
            position = group.position
            if start < 6:
                assert group._store is not None
                group._store.close(orderly=False)
                time.sleep(0.2)  # the others are already uploading the next iteration
            else:
                group.close()
        return sums

    with ThreadPoolExecutor(3) as pool:
        results = list(pool.map(lambda rank: is_restarted(rank) if rank == 1 else stays(rank), range(3)))
    assert results == [[3.0 + 3 * iteration for iteration in range(9)]] * 3


def test_a_killed_store_is_reported_and_a_new_one_serves(group_name: str) -> None:
    with start_servers(memory_mb=128) as servers:

        def reduce_and_kill(group: Group) -> None:
            for iteration in range(100_000):
                group.all_reduce(np.ones(_SIZE, np.float32))
                if iteration == 2 and group.rank == 0:
                    servers.processes[0].kill()

        for error in outcomes(servers.url, [0, 1], reduce_and_kill, world_size=2, name=group_name, timeout_s=30.0):
            assert isinstance(error, StoreLost)
            assert servers.url not in str(error)  # it has the password
    with start_servers(memory_mb=128) as servers:
        run_workers(servers.url, 2, lambda group: group.barrier(), name=group_name, generation=1)


def test_a_full_store_is_reported_and_holds_nothing_that_is_wrong(group_name: str) -> None:
    with start_servers(memory_mb=8) as servers:

        def too_much(group: Group) -> None:
            group.all_reduce(np.ones(20_000_000, np.float32))

        errors = outcomes(servers.url, [0, 1], too_much, world_size=2, name=group_name, timeout_s=3.0)
        assert any(isinstance(error, StoreFull) for error in errors)
        assert all(isinstance(error, StoreFull | SyncTimeout) for error in errors)
        assert "memory" in str(next(error for error in errors if isinstance(error, StoreFull)))


def test_shared_memory_that_does_not_fit_is_reported(tmp_path: Path) -> None:
    with pytest.raises(StoreFull, match="no room"):
        Segment(tmp_path / "0", 2, 1 << 50)
    assert not list(tmp_path.iterdir())


def test_a_wrong_password_is_refused_without_being_shown(servers: Servers) -> None:
    address = servers.url.partition(",")[0].partition("@")[2]
    with pytest.raises(SyncError, match="WRONGPASS") as caught:
        join(f"redis://:guessed@{address}", 0, 2)
    assert "guessed" not in str(caught.value)


def test_the_store_holds_a_few_rounds_whatever_the_size_of_the_model(group_name: str) -> None:
    with start_servers(memory_mb=512) as servers:
        world_size, iterations = 2, 3

        def work(group: Group) -> int:
            for _ in range(iterations):
                group.all_reduce(np.ones(35_000_000, np.float32))  # 140 MB
            assert group._store is not None
            return group._store.parcel_bytes

        parcel_bytes = run_workers(servers.url, world_size, work, name=group_name)[0]
        server = Connection(servers.url)
        info = dict(line.split(":") for line in server.ask("INFO", "memory").decode().split() if ":" in line)
        bound = world_size * world_size * SLOTS * parcel_bytes
        assert int(info["used_memory_peak"]) < 1.5 * bound < 140_000_000
        assert server.ask("KEYS", "*") == [f"mlcd:{group_name}:generation".encode()]
        server.close()


def test_who_waits_is_not_missing() -> None:
    assert really_missing([1], {}) == {1}
    assert really_missing([1], {1: [2], 0: [1]}) == {2}
    assert really_missing([1, 3], {1: [2], 0: [1, 3]}) == {2, 3}
    assert really_missing([1], {1: [0], 0: [1]}) == {1}  # everybody waits: something else is wrong
