"""A buffer of minibatches: the next ones are fetched in a thread while the program computes and exchanges gradients.

It pays where the program waits for its data and for other workers in turn, as on functions: reading a file, unpacking and
waiting for a network take no time of Python's. What the thread draws at random comes in another order than without it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from queue import Empty, Queue
from typing import Any, Generic, TypeVar

from mlcd.worker.batches import samples_in
from mlcd.worker.elastic import ElasticSampler

T = TypeVar("T")

_END = object()


class _Failed:
    """What went wrong in the thread."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


class Ahead(Generic[T]):
    """The batches of a loader, of which so many are fetched before they are asked for."""

    def __init__(self, loader: Iterable[T], batches: int) -> None:
        self.loader = loader
        self.batches = batches

    def __iter__(self) -> Iterator[T]:
        place = _Place(self.loader)
        fetched: Queue[Any] = Queue(self.batches)
        left = threading.Event()
        thread = threading.Thread(target=_fetch, args=(self.loader, fetched, left), daemon=True)
        thread.start()
        try:
            while (batch := fetched.get()) is not _END:
                if isinstance(batch, _Failed):
                    raise batch.error
                place.given(batch)
                yield batch
            place.at_end()
        finally:
            left.set()
            _drain(fetched)  # a thread that waits for room goes on, and sees that nobody wants more
            thread.join()
            place.correct()


def _fetch(loader: Iterable[Any], into: Queue[Any], left: threading.Event) -> None:
    try:
        for batch in loader:
            into.put(batch)
            if left.is_set():
                return
        into.put(_END)
    except BaseException as error:  # whatever it is, it is raised where the batch was wanted
        into.put(_Failed(error))


def _drain(queue: Queue[Any]) -> None:
    try:
        while True:
            queue.get_nowait()
    except Empty:
        return


class _Place:
    """Keeps an ElasticSampler at what was trained on, not at what was fetched."""

    def __init__(self, loader: Any) -> None:
        sampler = getattr(loader, "sampler", loader)
        self._sampler = sampler if isinstance(sampler, ElasticSampler) else None
        self._start = self._sampler.samples_seen if self._sampler is not None else 0
        self._given: int | None = 0

    def given(self, batch: Any) -> None:
        """The program has this batch now."""
        samples = samples_in(batch) if self._sampler is not None else None
        self._given = None if samples is None or self._given is None else self._given + samples

    def at_end(self) -> None:
        """All were given: the sampler knows best where it is."""
        self._given = None

    def correct(self) -> None:
        """Take back what was fetched in vain."""
        if self._sampler is not None and self._given is not None:
            seen = self._start + self._given * self._sampler.world_size
            self._sampler.load_state_dict({"samples_seen": seen})
