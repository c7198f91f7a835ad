"""Checkpoints that a cloud commits for a program are as complete, and as readable, as the worker's own."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from mlcd.clouds.checkpoints import changed_at, commit, newest_complete, prune, restore, samples_of, signature
from mlcd.worker import checkpoints as worker


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What a program has saved."""
    folder = tmp_path / "saved"
    (folder / "deep").mkdir(parents=True)
    (folder / "model.pt").write_bytes(b"weights")
    (folder / "deep" / "state.json").write_text("{}")
    return folder


@pytest.fixture
def into(tmp_path: Path) -> Path:
    """Where checkpoints are kept."""
    return tmp_path / "checkpoints"


def kept(folder: Path, into: Path, samples: float) -> Path:
    """Commit, where there is something to commit."""
    path = commit(folder, into, samples)
    assert path is not None
    return path


def test_a_committed_folder_comes_back_as_it_was(folder: Path, into: Path, tmp_path: Path) -> None:
    path = kept(folder, into, 320.0)
    assert newest_complete(into) == path
    assert samples_of(path) == 320.0
    (tmp_path / "back").mkdir()
    (tmp_path / "back" / "stale.pt").write_text("of another time")
    restore(path, tmp_path / "back")
    assert signature(tmp_path / "back") == signature(folder)


def test_the_worker_reads_what_the_cloud_commits(folder: Path, into: Path) -> None:
    path = kept(folder, into, 320.0)
    found = worker.newest_intact(into)
    assert found is not None
    assert (found.path, found.facts.samples, sorted(found.files)) == (
        path,
        320.0,
        ["deep/state.json", "model.pt"],
    )


def test_the_cloud_reads_what_the_worker_commits(into: Path) -> None:
    partial = worker.begin(into)
    (partial / "state.pt").write_text("weights")
    path = worker.commit(partial, worker.Facts(samples=64.0, steps=2))
    assert newest_complete(into) == path
    assert samples_of(path) == 64.0


def test_nothing_saved_is_nothing_to_commit(tmp_path: Path, into: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert commit(tmp_path / "empty", into, 1.0) is None
    assert commit(tmp_path / "missing", into, 1.0) is None
    assert newest_complete(into) is None


@pytest.mark.parametrize("harm", ["truncate", "change", "remove", "manifest"])
def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(folder: Path, into: Path, harm: str) -> None:
    good = kept(folder, into, 1.0)
    bad = kept(folder, into, 2.0)
    if harm == "truncate":
        os.truncate(bad / "model.pt", 3)
    elif harm == "change":
        (bad / "model.pt").write_bytes(b"WEIGHTS")
    elif harm == "remove":
        (bad / "deep" / "state.json").unlink()
    else:
        os.truncate(bad / "manifest.json", 20)
    assert newest_complete(into) == good


def test_a_half_made_checkpoint_does_not_count(folder: Path, into: Path) -> None:
    good = kept(folder, into, 1.0)
    partial = worker.begin(into)
    (partial / "model.pt").write_text("half")
    assert newest_complete(into) == good


def test_a_folder_that_changes_while_it_is_copied_is_not_committed(
    folder: Path, into: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlcd.clouds.checkpoints as module

    copy_inside = module.copy_inside

    def copy_while_the_program_writes(source: Path, target: Path, rename: dict[str, str | None]) -> list[str]:
        left_out = copy_inside(source, target, rename)
        (folder / "model.pt").write_bytes(b"newer weights")
        return left_out

    monkeypatch.setattr(module, "copy_inside", copy_while_the_program_writes)
    assert commit(folder, into, 1.0) is None
    assert list(into.iterdir()) == []


def test_only_the_newest_are_kept_and_never_less_than_two(folder: Path, into: Path) -> None:
    paths = [kept(folder, into, float(number)) for number in range(4)]
    prune(into, keep=2)
    assert sorted(into.iterdir()) == paths[2:]
    prune(into, keep=1)
    assert sorted(into.iterdir()) == paths[2:]


def test_the_last_complete_one_stays_though_newer_ones_are_damaged(folder: Path, into: Path) -> None:
    good = kept(folder, into, 1.0)
    os.truncate(kept(folder, into, 2.0) / "model.pt", 0)
    prune(into, keep=1)
    assert newest_complete(into) == good


def test_a_manifest_of_the_program_itself_is_kept_apart(folder: Path, into: Path, tmp_path: Path) -> None:
    (folder / "manifest.json").write_text('{"mine": true}')
    path = kept(folder, into, 1.0)
    restore(path, tmp_path / "back")
    assert json.loads((tmp_path / "back" / "manifest.json").read_text()) == {"mine": True}
    assert newest_complete(into) == path


def test_a_link_to_the_latest_stays_a_link(folder: Path, into: Path, tmp_path: Path) -> None:
    (folder / "latest").symlink_to("model.pt")
    restore(kept(folder, into, 1.0), tmp_path / "back")
    assert (tmp_path / "back" / "latest").readlink() == Path("model.pt")


def test_of_many_committed_at_once_none_is_lost(folder: Path, into: Path) -> None:
    threads = [threading.Thread(target=commit, args=(folder, into, 1.0 + number)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(samples_of(path) for path in into.iterdir()) == [1.0, 2.0, 3.0]


def test_the_time_of_change_is_that_of_the_newest_file(folder: Path) -> None:
    os.utime(folder / "model.pt", (1000.0, 1000.0))
    os.utime(folder / "deep" / "state.json", (2000.5, 2000.5))
    assert changed_at(signature(folder)) == 2000.5


def test_what_leads_out_of_the_folder_is_in_no_checkpoint(folder: Path, into: Path, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("secret")
    (folder / "relative").symlink_to("../key")
    (folder / "absolute").symlink_to(tmp_path / "key")
    (folder / "root").symlink_to("/")
    (folder / "latest").symlink_to(folder / "model.pt")
    os.mkfifo(folder / "pipe")
    told: list[list[str]] = []
    path = commit(folder, into, 320.0, left_out=told.append)
    assert path is not None
    assert told == [["absolute", "pipe", "relative", "root"]]
    restore(path, tmp_path / "back")
    names = sorted(str(one.relative_to(tmp_path / "back")) for one in (tmp_path / "back").rglob("*"))
    assert names == ["deep", "deep/state.json", "latest", "model.pt"]
    assert (tmp_path / "back" / "latest").read_bytes() == b"weights"


def test_a_folder_with_nothing_but_links_out_of_it_is_empty(tmp_path: Path, into: Path) -> None:
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "passwords").symlink_to("/etc/passwd")
    assert commit(tmp_path / "saved", into, 1.0) is None


@pytest.mark.parametrize("aim", ["/dev/zero", "/etc/passwd"])
def test_a_committed_file_that_becomes_a_link_out_is_missing(folder: Path, into: Path, aim: str) -> None:
    path = kept(folder, into, 320.0)
    manifest = json.loads((path / worker.MANIFEST).read_text())
    manifest["files"]["model.pt"]["bytes"] = Path(aim).stat().st_size
    (path / worker.MANIFEST).write_text(json.dumps(manifest))
    (path / "model.pt").unlink()
    (path / "model.pt").symlink_to(aim)
    assert newest_complete(into) is None


def test_a_manifest_that_is_nested_too_deeply_is_none(tmp_path: Path) -> None:
    (tmp_path / worker.MANIFEST).write_text("[" * 100_000)
    assert worker.read_checkpoint(tmp_path) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("samples", float("nan")),
        ("sequence", -1),
        ("steps", float("inf")),
        ("sequence", float("inf")),
        ("files", {"../model.pt": {"bytes": 1, "sha256": ""}}),
    ],
)
def test_a_manifest_that_cannot_be_right_is_none(folder: Path, into: Path, key: str, value: object) -> None:
    path = kept(folder, into, 320.0)
    manifest = json.loads((path / worker.MANIFEST).read_text())
    (path / worker.MANIFEST).write_text(json.dumps({**manifest, key: value}))
    assert worker.read_checkpoint(path) is None


def test_a_worker_that_commits_a_link_commits_what_it_means(into: Path, tmp_path: Path) -> None:
    (tmp_path / "base.pt").write_text("base")
    partial = worker.begin(into)
    (partial / "base.pt").symlink_to(tmp_path / "base.pt")
    path = worker.commit(partial, worker.Facts(1.0))
    (tmp_path / "base.pt").unlink()
    assert newest_complete(into) == path
    assert (path / "base.pt").read_text() == "base"
