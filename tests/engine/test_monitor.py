"""Those who look on delay and break nothing but themselves."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlcd.core.run import JobState
from mlcd.engine import monitor
from mlcd.engine.monitor import Opener, observed
from mlcd.errors import MissingExtraError
from mlcd.settings import Settings
from mlcd.store import Store, open_store
from stories import record


class Looker:
    """Counts, and raises if told to."""

    def __init__(self, error: Exception | None = None) -> None:
        self.looks = 0
        self.closed = threading.Event()
        self.error = error

    def look(self) -> None:
        self.looks += 1
        if self.error is not None:
            raise self.error

    def close(self) -> None:
        self.closed.set()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(f"sqlite:///{tmp_path / 'mlcd.db'}")
    opened.add_job(record(JobState.TRAINING))
    yield opened
    opened.close()


def openers(*lookers: Looker | None) -> tuple[tuple[str, Opener], ...]:
    return tuple(
        (f"Looker {number}", lambda *_all, looker=looker: looker)  # type: ignore[misc]
        for number, looker in enumerate(lookers)
    )


def test_each_has_a_last_look_and_is_closed(store: Store, tmp_path: Path) -> None:
    looker = Looker()
    with observed(store, Settings(home=tmp_path), "j-7f3a", openers(looker, None)) as begin:
        begin()
    assert looker.looks >= 1
    assert looker.closed.is_set()


def test_nobody_looks_before_the_controller_is_in_control(store: Store, tmp_path: Path) -> None:
    looker = Looker()
    with observed(store, Settings(home=tmp_path), "j-7f3a", openers(looker)):
        pass
    assert looker.looks == 0


def test_one_that_breaks_is_told_once_and_spoils_nothing_for_the_others(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monitor, "LOOK_SECONDS", 0.01)
    broken, whole = Looker(ZeroDivisionError()), Looker()
    looked = threading.Event()
    whole.look = lambda: looked.set()  # type: ignore[method-assign]
    with observed(store, Settings(home=tmp_path), "j-7f3a", openers(broken, whole)) as begin:
        begin()
        looked.wait(5)
        while broken.looks < 2:
            looked.wait(0.01)
    assert [event.message for event in store.events("j-7f3a")] == [
        "Looker 0 do not work: ZeroDivisionError (see controller.log)"
    ]


def test_a_missing_package_is_named_with_its_install_line(store: Store, tmp_path: Path) -> None:
    def missing(*_all: object) -> None:
        raise MissingExtraError("Traces need a package.", "pip install 'mlcd[otel]'")

    with observed(store, Settings(home=tmp_path), "j-7f3a", (("Traces", missing),)) as begin:
        begin()
    (event,) = store.events("j-7f3a")
    assert "pip install 'mlcd[otel]'" in event.message


def test_one_that_hangs_is_not_waited_for_for_ever(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monitor, "LAST_SECONDS", 0.2)
    release, looker = threading.Event(), Looker()
    looker.look = lambda: release.wait(30) and None  # type: ignore[method-assign]
    with observed(store, Settings(home=tmp_path), "j-7f3a", openers(looker)) as begin:
        begin()
    assert not looker.closed.is_set()
    release.set()
    assert looker.closed.wait(5)
