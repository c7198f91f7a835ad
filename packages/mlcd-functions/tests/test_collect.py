"""What functions leave in the object store is checked before it is brought home."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mlcd.clouds import received
from mlcd.clouds.tasks.files import make_folders
from mlcd.core.task import TaskFolder
from mlcd.errors import CloudError
from mlcd.worker import checkpoints as worker
from mlcd_functions import collect
from mlcd_functions.collect import Collector, new_reports, newest_shipped, shifted
from mlcd_functions.files import Invocation, State
from mlcd_functions.lambdas import read_answer
from mlcd_functions.messages import Report, read_report, report_key, to_bytes
from mlcd_functions.objects.base import ObjectStore, open_object_store
from mlcd_functions.objects.errors import ObjectTooLarge


@pytest.fixture
def objects(tmp_path: Path) -> ObjectStore:
    return open_object_store((tmp_path / "objects").as_uri())


@pytest.fixture
def home(tmp_path: Path) -> Collector:
    home = Collector(TaskFolder(tmp_path / "home" / "task"), tmp_path / "home" / "checkpoints", 2)
    make_folders(home.folder, home.checkpoints)
    return home


def shipped(objects: ObjectStore, tmp_path: Path, **changes: Any) -> str:
    """A checkpoint in the store, with another manifest than it should have."""
    partial = worker.begin(tmp_path / "there")
    (partial / "model").write_text("weights")
    made = worker.commit(partial, worker.Facts(100.0))
    objects.put(f"checkpoints/{made.name}/model", b"weights")
    manifest = {**json.loads((made / worker.MANIFEST).read_text()), **changes}
    objects.put(f"checkpoints/{made.name}/manifest.json", json.dumps(manifest).encode())
    return made.name


def test_a_checkpoint_comes_home(objects: ObjectStore, home: Collector, tmp_path: Path) -> None:
    name = shipped(objects, tmp_path)
    assert newest_shipped(objects) == name
    assert home.fetch(objects, name)
    assert (home.checkpoints / name / "model").read_text() == "weights"


def test_a_checkpoint_that_was_set_aside_makes_room_for_a_new_one_of_its_name(
    objects: ObjectStore, home: Collector, tmp_path: Path
) -> None:
    name = shipped(objects, tmp_path)
    assert home.fetch(objects, name)
    (home.checkpoints / name / "model").write_text("rubbish")
    found = worker.read_checkpoint(home.checkpoints / name)
    assert found is not None
    worker.refuse(found, "task-7")
    assert home.fetch(objects, name)
    newest = worker.newest_intact(home.checkpoints)
    assert newest is not None
    assert (newest.path / "model").read_text() == "weights"


@pytest.mark.parametrize("name", ["../../stolen", "/tmp/stolen", "..", ""])
def test_a_checkpoint_that_leads_out_does_not(objects: ObjectStore, home: Collector, name: str) -> None:
    assert not home.fetch(objects, name)


def test_files_of_a_manifest_stay_in_the_checkpoint(objects: ObjectStore, home: Collector, tmp_path: Path) -> None:
    digest = {"bytes": 7, "sha256": "9" * 64}
    name = shipped(objects, tmp_path, files={"../../authorized_keys": digest})
    assert not home.fetch(objects, name)
    assert not (tmp_path / "home" / "authorized_keys").exists()


class Bucket:
    """Object stores elsewhere keep any key."""

    def keys(self, prefix: str) -> list[str]:
        return [f"{prefix}../../authorized_keys", f"{prefix}x/manifest.json"]

    def download(self, key: str, path: Path, most: int | None = None) -> None:
        path.write_text("intruder")


def test_outputs_stay_in_their_folder(home: Collector, tmp_path: Path) -> None:
    with pytest.raises(CloudError, match="does not lie within"):
        home.fetch_outputs(Bucket())  # type: ignore[arg-type]  # all that is asked of it
    assert not list((tmp_path / "home").rglob("authorized_keys"))


def test_nothing_is_brought_that_would_fill_the_disk(
    objects: ObjectStore, home: Collector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = shipped(objects, tmp_path)
    objects.put("outputs/model.pt", b"weights")
    nearly_full = type(shutil.disk_usage(tmp_path))(10**12, 10**12, received.RESERVE_BYTES + 3)
    monkeypatch.setattr(received.shutil, "disk_usage", lambda folder: nearly_full)
    assert not home.fetch(objects, name)
    with pytest.raises(ObjectTooLarge):
        home.fetch_outputs(objects)
    assert not [path for path in (tmp_path / "home").rglob("*") if path.is_file()]


@pytest.mark.parametrize("file", ["model", "manifest.json"])
def test_a_checkpoint_whose_files_are_larger_than_it_says_does_not_come_home(
    objects: ObjectStore, home: Collector, tmp_path: Path, file: str
) -> None:
    name = shipped(objects, tmp_path)
    more = b"weights and more" if file == "model" else b" " * (worker.MOST_MANIFEST_BYTES + 1)
    objects.put(f"checkpoints/{name}/{file}", more)
    assert not home.fetch(objects, name)
    assert list(home.checkpoints.iterdir()) == []


def test_a_report_that_is_too_large_ends_the_function_with_a_reason(
    objects: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collect, "_MOST_REPORT_BYTES", 100)
    objects.put(report_key(0, "i1", 0), to_bytes(Report(at=5.0, phase="running", log="x" * 100)))
    (told,) = new_reports(objects, Invocation(0, "i1", 1, 0.0, 0.0))
    assert (told.phase, told.problem) == ("ended", "a report of the function cannot be read")


def test_names_that_are_no_checkpoints_are_passed_over() -> None:
    assert newest_shipped(Bucket()) == ""  # type: ignore[arg-type]  # all that is asked of it


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"at": "now", "phase": "running"}',
        '{"at": NaN, "phase": "x"}',
        '{"at": 1, "phase": 2}',
        '{"at": 1, "phase": "x", "more": 1}',
        '{"at": 1' + "0" * 400 + ', "phase": "x"}',
        '{"at": 1, "phase": "x", "running_at": -1' + "0" * 400 + "}",
        '{"at": 1, "phase": "x", "exit_code": 1' + "0" * 400 + "}",
    ],
)
def test_a_report_that_is_none_ends_the_function_with_a_reason(text: str) -> None:
    assert read_report(text.encode()).problem == "a report of the function cannot be read"


def test_what_a_killed_runner_wrote_and_did_not_note_is_written_once(home: Collector) -> None:
    line = '{"t": 1, "steps": 1, "samples": 8, "process": "a"}\n'
    invocation, report = (
        Invocation(0, "i", 1, 0.0, 0.0),
        Report(1.0, "running", 1, log="step 1\n", progress=line),
    )
    noted = home.take(State(1, "b", generation=1, latest=(invocation,)), invocation, report)
    known, log = home.sizes(), home.folder.log()
    twice = replace(report, log="step 2\n")
    home.take(noted, invocation, twice)  # and it is killed before it notes that
    home.cut_back(known)
    assert log.read_text() == "step 1\n"
    home.take(noted, invocation, twice)
    assert log.read_text() == "step 1\nstep 2\n"
    assert len((home.folder.progress / "rank-0.jsonl").read_text().splitlines()) == 2


def test_a_report_is_not_of_a_time_to_come(objects: ObjectStore) -> None:
    objects.put(report_key(0, "i", 0), to_bytes(Report(1e18, "running", began_at=1e18, running_at=1e18)))
    (report,) = new_reports(objects, Invocation(0, "i", 1, 0.0, 0.0))
    assert report.at < 1e12
    assert report.running_at is not None
    assert report.running_at <= report.at
    assert report.began_at is not None
    assert report.began_at <= report.at


@pytest.mark.parametrize(
    "line",
    [
        '{"t": 1, "steps": 1, "samples": NaN}',
        '{"t": 1, "steps": Infinity, "samples": 1}',
        '{"t": 1, "steps": 1, "samples": 1' + "0" * 400 + "}",
        "[" * 100_000,
    ],
)
def test_counts_that_are_no_numbers_are_passed_over(line: str) -> None:
    assert shifted(line, 0, State(1, "")) == ("", State(1, ""))


def test_a_program_does_not_print_its_own_bill() -> None:
    log = "Billed Duration: 1 ms\nREPORT RequestId: x\tDuration: 99.5 ms\tBilled Duration: 100 ms\n"
    assert read_answer(b"{}", "", log).billed_seconds == 0.1
