"""One function's part of a task, without the service that would invoke it."""

from __future__ import annotations

import io
import threading
import time
import zipfile
from pathlib import Path

import pytest

from mlcd_functions import handler
from mlcd_functions.counted_objects import CountedObjects
from mlcd_functions.handler import Worker
from mlcd_functions.messages import CODE, INSTRUCTIONS, Event, Instructions, to_bytes
from mlcd_functions.objects.base import open_object_store
from mlcd_functions.workspace import Workspace

pytestmark = pytest.mark.slow


@pytest.fixture
def objects(tmp_path: Path) -> CountedObjects:
    """The task's part of an object store, with a program that has no files."""
    store = CountedObjects(open_object_store((tmp_path / "objects").as_uri()))
    packed = io.BytesIO()
    zipfile.ZipFile(packed, "w").close()
    store.put(CODE, packed.getvalue())
    return store


def worker(objects: CountedObjects, tmp_path: Path, before: str = "") -> Worker:
    event = Event(objects.url, "t", 0, "i1", run=f"{before}touch {tmp_path}/started", tick_seconds=0.05)
    space = Workspace(tmp_path / "space", event)
    space.root.mkdir(exist_ok=True)
    return Worker(event, objects, space, time.time(), time.time() + 60.0)


def test_a_function_does_what_it_is_ordered_to(objects: CountedObjects, tmp_path: Path) -> None:
    objects.put(INSTRUCTIONS, to_bytes(Instructions(generation=1, members={"0": "i1"})))
    assert worker(objects, tmp_path).run()["exit_code"] == 0
    assert (tmp_path / "started").exists()


def test_orders_that_are_away_for_a_moment_end_nothing(
    objects: CountedObjects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects.put(INSTRUCTIONS, to_bytes(Instructions(generation=1, members={"0": "i1"})))
    waiting = worker(objects, tmp_path, "sleep 2; ")
    threading.Timer(1.0, objects.delete, [INSTRUCTIONS]).start()
    assert waiting.run()["exit_code"] == 0
    (tmp_path / "started").unlink()
    monkeypatch.setattr(handler, "AWAY_SECONDS", 0.5)
    objects.put(INSTRUCTIONS, to_bytes(Instructions(generation=1, members={"0": "i1"})))
    forgotten = worker(objects, tmp_path, "sleep 60; ")
    threading.Timer(1.0, objects.delete, [INSTRUCTIONS]).start()
    assert forgotten.run()["asked"] == "stop"
    assert not (tmp_path / "started").exists()


def test_a_function_that_comes_too_late_for_its_orders_starts_nothing(objects: CountedObjects, tmp_path: Path) -> None:
    assert worker(objects, tmp_path).run()["exit_code"] is None
    assert not (tmp_path / "started").exists()


def test_a_warm_function_of_another_rank_sets_up_anew_and_of_the_same_does_not(
    objects: CountedObjects, tmp_path: Path
) -> None:
    """Lambda may give any idle environment of the task to any rank, and each rank has its own part of the data."""
    objects.put(INSTRUCTIONS, to_bytes(Instructions(generation=1, members={"0": "i1", "1": "i2"})))
    for rank, name in ((0, "i1"), (1, "i2"), (1, "i2")):
        setup = f"touch part-$RANK; echo $RANK >> {tmp_path}/setups"
        event = Event(
            objects.url, "t", rank, name, f"ls > {tmp_path}/seen-$RANK", setup=setup, envs={"RANK": str(rank)}
        )
        space = Workspace(tmp_path / "space", event)
        space.root.mkdir(exist_ok=True)
        assert Worker(event, objects, space, time.time(), time.time() + 60.0).run()["exit_code"] == 0
    assert [(tmp_path / f"seen-{rank}").read_text().split() for rank in (0, 1)] == [["part-0"], ["part-1"]]
    assert (tmp_path / "setups").read_text().split() == ["0", "1"]
