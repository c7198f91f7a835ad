"""Collective operations give what NumPy gives, through every kind of store."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlcd.errors import UserError
from mlcd.sync import Group, SyncError, join, remove_segments
from sync.conftest import run_workers

Workers = Callable[..., list[Any]]

_DTYPES = ["float32", "float64", "float16", "int32", "int64", "uint8", "complex64"]


def values(rank: int, shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    return np.array(np.random.default_rng([seed, rank]).random(shape) * 20).astype(dtype)


def summed_in_order(arrays: list[np.ndarray]) -> np.ndarray:
    total = arrays[0].copy()
    for array in arrays[1:]:
        total = total + array
    return total


@pytest.mark.parametrize("world_size", [1, 2, 3, 5])
def test_all_reduce_is_the_sum_in_the_order_of_ranks(workers: Workers, world_size: int) -> None:
    def work(group: Group) -> np.ndarray:
        array = values(group.rank, (100_003,), "float32")
        group.all_reduce(array)
        return array

    expected = summed_in_order([values(rank, (100_003,), "float32") for rank in range(world_size)])
    for result in workers(world_size, work):
        np.testing.assert_array_equal(result, expected)  # to the last bit


@pytest.mark.slow
def test_buffers_of_many_rounds_are_summed(workers: Workers) -> None:
    size = 3_000_001

    def work(group: Group) -> list[np.ndarray]:
        results = []
        for iteration in range(3):
            array = values(group.rank, (size,), "float32", iteration)
            group.all_reduce([array], op="mean")
            results.append(array)
        return results

    all_results = workers(3, work)
    for iteration in range(3):
        expected = summed_in_order([values(rank, (size,), "float32", iteration) for rank in range(3)]) / np.float32(3)
        for results in all_results:
            np.testing.assert_array_equal(results[iteration], expected)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    world_size=st.integers(1, 5),
    buffers=st.lists(
        st.tuples(st.lists(st.integers(0, 40), min_size=0, max_size=3), st.sampled_from(_DTYPES)),
        min_size=1,
        max_size=4,
    ),
)
def test_all_reduce_takes_any_shapes_and_types(world_size: int, buffers: list[tuple[list[int], str]]) -> None:
    def inputs(rank: int) -> list[np.ndarray]:
        return [values(rank, tuple(shape), dtype, index) for index, (shape, dtype) in enumerate(buffers)]

    def work(group: Group) -> list[np.ndarray]:
        arrays = inputs(group.rank)
        group.all_reduce(arrays)
        return arrays

    expected = [summed_in_order(list(each)) for each in zip(*map(inputs, range(world_size)), strict=True)]
    name = f"hypothesis-{os.getpid()}"
    try:
        for results in run_workers(f"shm://{name}", world_size, work):
            for result, right in zip(results, expected, strict=True):
                np.testing.assert_array_equal(result, right)
    finally:
        remove_segments(name)


def test_min_max_and_product(workers: Workers) -> None:
    def work(group: Group) -> list[float]:
        results = []
        for op in ("min", "max", "product"):
            array = np.full(3, group.rank + 2.0)
            group.all_reduce(array, op=op)
            results.append(array[0])
        return results

    assert workers(3, work) == [[2.0, 4.0, 24.0]] * 3


def test_broadcast_gives_everybody_the_values_of_the_root(workers: Workers) -> None:
    def work(group: Group) -> np.ndarray:
        large = values(group.rank, (700_000,), "float32")
        small = np.full((2, 3), group.rank)
        group.broadcast([large, small], root=1)
        assert (small == 1).all()
        return large

    for result in workers(3, work):
        np.testing.assert_array_equal(result, values(1, (700_000,), "float32"))


def test_all_gather_keeps_the_order_of_ranks(workers: Workers) -> None:
    def work(group: Group) -> np.ndarray:
        return group.all_gather(values(group.rank, (300, 1001), "float32"))

    for result in workers(3, work):
        assert result.shape == (3, 300, 1001)
        for rank in range(3):
            np.testing.assert_array_equal(result[rank], values(rank, (300, 1001), "float32"))


def test_reduce_scatter_gives_each_worker_its_share_and_leaves_the_input_alone(workers: Workers) -> None:
    def work(group: Group) -> np.ndarray:
        array = values(group.rank, (3, 500_001), "float32")
        before = array.copy()
        share = group.reduce_scatter(array)
        np.testing.assert_array_equal(array, before)
        return share

    total = summed_in_order([values(rank, (3, 500_001), "float32") for rank in range(3)])
    for rank, share in enumerate(workers(3, work)):
        np.testing.assert_array_equal(share, total[rank])


def test_operations_follow_each_other_in_any_order(workers: Workers) -> None:
    """Slots are reused across operations of every kind: whoever is ahead must not overwrite what others still read."""

    def work(group: Group) -> None:
        order = np.random.default_rng(7)
        for step in range(60):
            size = int(order.integers(0, 400_000))
            kind, root = order.integers(0, 5), int(order.integers(0, 4))
            if kind == 0:
                array = np.full(size, float(group.rank + step), np.float32)
                group.all_reduce(array)
                assert (array == 4 * step + 6).all()
            elif kind == 1:
                array = np.full(size, float(group.rank + step), np.float32)
                group.broadcast(array, root=root)
                assert (array == root + step).all()
            elif kind == 2:
                gathered = group.all_gather(np.full(size // 4, float(group.rank + step), np.float32))
                assert (gathered == np.arange(step, step + 4, dtype=np.float32)[:, None]).all()
            elif kind == 3:
                share = group.reduce_scatter(np.full((4, size // 4), float(group.rank + step), np.float32))
                assert (share == 4 * step + 6).all()
            else:
                group.barrier()

    workers(4, work)


def test_one_worker_needs_no_store() -> None:
    with join("", 0, 1) as group:
        array = np.arange(5.0)
        group.all_reduce(array, op="mean")
        group.broadcast(array)
        group.barrier()
        np.testing.assert_array_equal(array, np.arange(5.0))
        assert group.all_gather(array).shape == (1, 5)


def test_the_steps_of_figure_5_are_timed(workers: Workers) -> None:
    def work(group: Group) -> Any:
        group.all_reduce(np.ones(1_000_000, np.float32))
        return group.times

    for times in workers(2, work):
        assert min(times.ul_shard_s, times.dl_shard_s, times.ul_aggr_s, times.dl_grad_s) > 0


def test_a_mean_of_whole_numbers_is_refused() -> None:
    with join("", 0, 1) as group, pytest.raises(UserError, match="floating-point"):
        group.all_reduce(np.arange(3), op="mean")


def test_an_unknown_way_to_reduce_names_the_nearest() -> None:
    with join("", 0, 1) as group, pytest.raises(UserError, match="'product'"):
        group.all_reduce(np.arange(3), op="produce")


def test_a_group_without_a_store_says_what_to_set() -> None:
    with pytest.raises(UserError, match="MLCD_SYNC_URL"):
        join("", 0, 2)
    with pytest.raises(UserError, match="ftp"):
        join("ftp://host", 0, 2)


def test_a_buffer_with_gaps_is_refused() -> None:
    with join("", 0, 1) as group, pytest.raises(ValueError, match="contiguous"):
        group.all_reduce(np.zeros((4, 4))[:, ::2])


def test_what_cannot_be_written_is_refused() -> None:
    fixed = np.zeros(3)
    fixed.flags.writeable = False
    for refused in (fixed, np.float32(3.0)):
        with join("", 0, 1) as group, pytest.raises(ValueError, match="writeable"):
            group.all_reduce([refused])


def test_a_worker_that_begins_twice_in_one_generation_is_told(store_url: str, group_name: str) -> None:
    run_workers(store_url, 2, lambda group: group.all_reduce(np.ones(10)), name=group_name)  # ends in order

    def leave_without_closing(group: Group) -> None:
        group.all_reduce(np.ones(10))
        group._failure = KeyboardInterrupt()  # as a killed worker would: nothing is cleaned up

    run_workers(store_url, 2, leave_without_closing, name=group_name)
    with pytest.raises(SyncError, match="before"):
        join(store_url, 0, 2, name=group_name)
    run_workers(store_url, 2, lambda group: group.all_reduce(np.ones(10)), name=group_name, generation=1)


def test_arrays_of_the_store_are_reduced_like_others(workers: Workers) -> None:
    def work(group: Group) -> list[np.ndarray]:
        arrays = [group.empty((3, 100_001)), group.empty(7, np.float64), group.empty(0)]
        private = np.full(5, 1.0)
        results = []
        for iteration in range(5):
            for array in arrays:
                array[...] = values(group.rank, array.shape, array.dtype.name, iteration)
            group.all_reduce([arrays[0][1], *arrays[1:], private], op="mean" if iteration == 4 else "sum")
            results.append(arrays[0].copy())
            np.testing.assert_array_equal(private, np.full(5, 3.0 ** min(iteration + 1, 4)))
        return results

    everybody = workers(3, work)
    for iteration in range(5):
        total = summed_in_order([values(rank, (3, 100_001), "float32", iteration) for rank in range(3)])
        for rank, results in enumerate(everybody):
            mine = values(rank, (3, 100_001), "float32", iteration)
            mine[1] = total[1] / np.float32(3) if iteration == 4 else total[1]
            np.testing.assert_array_equal(results[iteration], mine)  # the rows beside it are left alone
