"""A runner that takes over goes on exactly where the one before it had noted that it was."""

from __future__ import annotations

from pathlib import Path

from mlcd.clouds.tasks.files import make_folders
from mlcd.core.machines import Deployment, InstanceType, Offer
from mlcd.core.task import Task, TaskFolder, TaskKind
from mlcd.sync import open_object_store
from mlcd_functions.collect import Collector
from mlcd_functions.counted_objects import CountedObjects
from mlcd_functions.files import Invocation, Spec, State, TaskFiles
from mlcd_functions.invoker import Invoker
from mlcd_functions.lambdas import Lambdas
from mlcd_functions.messages import Report, report_key, to_bytes
from mlcd_functions.record import Record
from mlcd_functions.settings import FunctionsSettings

SPEC = Spec(
    Task("t", "j", TaskKind.TRAINING, "command", "true"),
    Deployment(Offer("functions", InstanceType("fn", vcpus=1.0), 0.1, 200, kind="function"), 1),
    "/nowhere",
    0.0,
)


def test_what_a_killed_runner_wrote_last_is_written_once(tmp_path: Path) -> None:
    objects = CountedObjects(open_object_store((tmp_path / "objects").as_uri()))
    files, home = (
        TaskFiles(tmp_path / "task"),
        Collector(TaskFolder(tmp_path / "home"), tmp_path / "saved", 2),
    )
    files.root.mkdir()
    make_folders(home.folder, home.checkpoints)
    invoker = Invoker(Lambdas(FunctionsSettings(), tmp_path), "name", lambda: None)

    def take_over(state: State) -> Record:
        return Record(files, home, objects, state, lost_seconds=30.0, read_seconds=0.0)

    def say(number: int) -> None:
        report = Report(1.0, "running", 1, log=f"step {number}\n")
        objects.put(report_key(0, "i1", number), to_bytes(report))

    killed = take_over(State(1, "b", generation=1, latest=(Invocation(0, "i1", 1, 0.0, 0.0),)))
    say(0)
    killed.receive(invoker)
    killed.change()
    say(1)
    killed.receive(invoker)  # and it is killed before it notes that
    noted = files.read_state()
    assert noted is not None
    next_one = take_over(noted)
    next_one.change()
    next_one.receive(invoker)
    next_one.change()
    assert home.folder.log().read_text() == "step 0\nstep 1\n"
