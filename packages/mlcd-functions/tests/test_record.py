"""A runner that takes over goes on exactly where the one before it had noted that it was."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from mlcd.clouds.tasks.files import make_folders
from mlcd.core.machines import Deployment, InstanceType, Offer
from mlcd.core.task import Task, TaskFolder, TaskKind
from mlcd_functions.collect import Collector
from mlcd_functions.counted_objects import CountedObjects
from mlcd_functions.files import Invocation, Spec, State, TaskFiles
from mlcd_functions.invoker import Invoker
from mlcd_functions.lambdas import Lambdas
from mlcd_functions.messages import Report, report_key, to_bytes
from mlcd_functions.objects.base import open_object_store
from mlcd_functions.outcomes import is_lost
from mlcd_functions.record import Record
from mlcd_functions.settings import FunctionsSettings

SPEC = Spec(
    Task("t", "j", TaskKind.TRAINING, "command", "true"),
    Deployment(Offer("functions", InstanceType("fn", vcpus=1.0), 0.1, 200, kind="function"), 1),
    "/nowhere",
    0.0,
)


class Field:
    """A task's files, object store and invoker, without a runner."""

    def __init__(self, folder: Path) -> None:
        self.objects = CountedObjects(open_object_store((folder / "objects").as_uri()))
        self.files = TaskFiles(folder / "task")
        self.home = Collector(TaskFolder(folder / "home"), folder / "saved", 2)
        self.files.root.mkdir()
        make_folders(self.home.folder, self.home.checkpoints)
        self.invoker = Invoker(Lambdas(FunctionsSettings(), folder), "name", lambda: None)

    def record(self, state: State) -> Record:
        return Record(self.files, self.home, self.objects, state, lost_seconds=30.0, read_seconds=0.0)


def test_nobody_is_lost_between_a_look_for_reports_and_the_decision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Silence counts up to the look that found it: by the next one a store that refuses to be written to is known."""
    field = Field(tmp_path)
    now = 1029.9  # just before it counts as lost
    monkeypatch.setattr(time, "time", lambda: now)
    record = field.record(State(1, "b", generation=1, latest=(Invocation(0, "i1", 1, 1000.0, 1000.0),)))
    record.receive(field.invoker)
    now += 5.0  # the runner gets no time
    (silent,) = record.state.latest
    assert not is_lost(silent, record.looked_at, 30.0)
    drafts = tmp_path / "objects" / ".mlcd"
    drafts.rename(drafts.with_name(".aside"))
    drafts.write_text("no folder")  # objects can still be read, and none can be written
    record.receive(field.invoker)
    (silent,) = record.state.latest
    assert record.away_seconds > 0
    assert not is_lost(silent, record.looked_at, 30.0)


def test_what_a_killed_runner_wrote_last_is_written_once(tmp_path: Path) -> None:
    field = Field(tmp_path)
    objects, invoker, take_over = field.objects, field.invoker, field.record

    def say(number: int) -> None:
        report = Report(1.0, "running", 1, log=f"step {number}\n")
        objects.put(report_key(0, "i1", number), to_bytes(report))

    killed = take_over(State(1, "b", generation=1, latest=(Invocation(0, "i1", 1, 0.0, 0.0),)))
    say(0)
    killed.receive(invoker)
    killed.change()
    say(1)
    killed.receive(invoker)  # and it is killed before it notes that
    noted = field.files.read_state()
    assert noted is not None
    next_one = take_over(noted)
    next_one.change()
    next_one.receive(invoker)
    next_one.change()
    assert field.home.folder.log().read_text() == "step 0\nstep 1\n"


def test_every_report_is_home_and_known_before_reports_may_be_deleted(tmp_path: Path) -> None:
    field = Field(tmp_path)
    for number in range(120):  # more than are read in one go
        report = Report(1.0, "running", 1, log=f"step {number}\n")
        field.objects.put(report_key(0, "i1", number), to_bytes(report))
    ending = field.record(State(1, "b", generation=1, latest=(Invocation(0, "i1", 1, 0.0, 0.0),)))
    ending.receive(field.invoker)
    ending.receive_rest()
    for key in field.objects.keys(""):
        field.objects.delete(key)  # and it is killed
    noted = field.files.read_state()
    assert noted is not None
    field.record(noted).receive(field.invoker)
    assert field.home.folder.log().read_text() == "".join(f"step {number}\n" for number in range(120))
