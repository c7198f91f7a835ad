import threading
from collections.abc import Iterator

import numpy as np
import pytest

import mlcd
from mlcd.worker import ElasticSampler

PATIENCE_SECONDS = 60.0


class Loader:
    """Batches of an ElasticSampler's samples, as torch's loader gives them."""

    def __init__(self, sampler: ElasticSampler, batch: int) -> None:
        self.sampler = sampler
        self.batch = batch

    def __iter__(self) -> Iterator[np.ndarray]:
        taken: list[int] = []
        for index in self.sampler:
            taken.append(index)
            if len(taken) == self.batch:
                yield np.array(taken)
                taken = []


def test_the_next_batches_are_fetched_while_the_program_is_busy_with_one() -> None:
    fetched = [threading.Event() for _ in range(5)]

    def load() -> Iterator[int]:
        for number, event in enumerate(fetched):
            event.set()
            yield number

    given = []
    for number in mlcd.steps(load(), prefetch=2):
        given.append(number)
        assert fetched[min(number + 2, 4)].wait(PATIENCE_SECONDS)
    assert given == [0, 1, 2, 3, 4]


def test_what_goes_wrong_in_the_loader_is_raised_in_the_loop_after_the_batches_before_it() -> None:
    def load() -> Iterator[int]:
        yield 1
        raise OSError("the disk is gone")

    given: list[int] = []
    with pytest.raises(OSError, match="the disk is gone"):
        given.extend(mlcd.steps(load(), prefetch=3))
    assert given == [1]


def test_batches_that_the_program_did_not_get_are_not_counted_as_seen() -> None:
    sampler = ElasticSampler(100, shuffle=False, rank=0, world_size=2)
    loader = Loader(sampler, 5)
    for number, _ in enumerate(mlcd.steps(loader, prefetch=4), start=1):
        if number == 3:
            break
    assert sampler.samples_seen == 3 * 5 * 2
    rest = np.concatenate(list(mlcd.steps(loader, prefetch=4)))
    assert list(rest) == list(range(30, 100, 2))
    assert sampler.samples_seen == 100


def test_the_former_name_of_the_option_still_works() -> None:
    second = threading.Event()

    def load() -> Iterator[int]:
        yield 1
        second.set()
        yield 2

    for number in mlcd.steps(load(), ahead=1):
        if number == 1:
            assert second.wait(PATIENCE_SECONDS)
