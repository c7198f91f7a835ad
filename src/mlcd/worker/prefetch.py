"""Prefetching: a thread fetches the next batches while the program computes and exchanges gradients.

It helps where the program waits for its data and for other workers in turn, as on functions: reading files, unpacking and
waiting for a network do not hold Python's lock. Random numbers drawn by the thread come in another order than without it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from queue import Empty, Queue
from typing import Any, Generic, TypeVar

from mlcd.worker.batch_samples import samples_in
from mlcd.worker.elastic import ElasticSampler

T = TypeVar("T")

_END = object()


class _Failed:
    """An error of the thread, on its way to the program."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


class Prefetch(Generic[T]):
    """The batches of a loader; up to `batches` of them are fetched before the program asks for them."""

    def __init__(self, loader: Iterable[T], batches: int) -> None:
        self.loader = loader
        self.batches = batches

    def __iter__(self) -> Iterator[T]:
        position = _SamplerPosition(self.loader)
        fetched: Queue[Any] = Queue(self.batches)
        stopped = threading.Event()
        thread = threading.Thread(target=_fetch, args=(self.loader, fetched, stopped), daemon=True)
        thread.start()
        try:
            while (batch := fetched.get()) is not _END:
                if isinstance(batch, _Failed):
                    raise batch.error
                position.given(batch)
                yield batch
            position.at_end()
        finally:
            stopped.set()
            _drain(fetched)  # wakes a thread that waits for room in the queue
            thread.join()
            position.correct()


def _fetch(loader: Iterable[Any], into: Queue[Any], stopped: threading.Event) -> None:
    try:
        for batch in loader:
            into.put(batch)
            if stopped.is_set():
                return
        into.put(_END)
    except BaseException as error:  # raised again in the program's thread
        into.put(_Failed(error))


def _drain(queue: Queue[Any]) -> None:
    try:
        while True:
            queue.get_nowait()
    except Empty:
        return


class _SamplerPosition:
    """Sets an ElasticSampler back to the samples that were trained on, where more were fetched."""

    def __init__(self, loader: Any) -> None:
        sampler = getattr(loader, "sampler", loader)
        self._sampler = sampler if isinstance(sampler, ElasticSampler) else None
        self._start = self._sampler.samples_seen if self._sampler is not None else 0
        self._given: int | None = 0

    def given(self, batch: Any) -> None:
        """The program got this batch."""
        samples = samples_in(batch) if self._sampler is not None else None
        self._given = None if samples is None or self._given is None else self._given + samples

    def at_end(self) -> None:
        """The program got all batches: the sampler's own position is right."""
        self._given = None

    def correct(self) -> None:
        """Take back the batches that the program did not get."""
        if self._sampler is not None and self._given is not None:
            seen = self._start + self._given * self._sampler.world_size
            self._sampler.load_state_dict({"samples_seen": seen})
