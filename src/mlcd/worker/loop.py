"""The loop over batches that counts by itself and knows when to end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

from mlcd.worker.batch_samples import leading_dimension, samples_in
from mlcd.worker.guard import guard
from mlcd.worker.loader_workers import survive_sigterm
from mlcd.worker.prefetch import Prefetch
from mlcd.worker.session import Session, current

T = TypeVar("T")


class Steps(Generic[T]):
    """The batches of a loader; every pass through the loop's body is a step."""

    def __init__(self, loader: Iterable[T], prefetch: int = 0) -> None:
        self.loader = loader
        self._batches = Prefetch(loader, prefetch) if prefetch > 0 else loader

    def __iter__(self) -> Iterator[T]:
        session = current()
        if not session.env.started_by_mlcd or session.mute:
            yield from self._batches
            return
        _prepare(session, self.loader)
        yield from _counted(session, self._batches)

    def __len__(self) -> int:
        return len(self.loader)  # type: ignore[arg-type]  # a loader without a length says so itself


def _counted(session: Session, loader: Iterable[T]) -> Iterator[T]:
    """A batch is counted when the body comes back for the next one, or leaves the loop."""
    counts, stop = session.counts, session.stop
    if _due(session):
        return
    limit = _limit(session)
    for batch in loader:
        counts.begin_batch(leading_dimension(batch) or _samples(session, batch))
        try:
            yield batch
        finally:
            counts.add_loop(1, counts.in_flight)
        pressing = stop.wanted or stop.heard_at is not None or counts.reports_samples
        if (pressing or counts.loop[2] >= limit) and _due(session):  # type: ignore[index]
            return


@guard(None)
def _prepare(session: Session, loader: Any) -> None:
    session.stop.handle_sigterm()
    survive_sigterm(loader)
    session.start()


@guard(False)
def _due(session: Session) -> bool:
    return session.stop.due()


@guard(0.0)
def _limit(session: Session) -> float:
    return session.stop.own_limit()


@guard(1.0)
def _samples(session: Session, batch: Any) -> float:
    samples = samples_in(batch)
    return float(samples if samples is not None else max(1, session.env.local_batch_size))
