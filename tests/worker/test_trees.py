"""Folders that a program made are read and copied without ever leaving them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mlcd.worker.names import is_inner, is_plain
from mlcd.worker.trees import copy_inside, files_inside, in_words


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """What a program made, beside a key that is none of its business."""
    (tmp_path / "key").write_text("secret")
    made = tmp_path / "made"
    (made / "deep").mkdir(parents=True)
    (made / "model.pt").write_bytes(b"weights")
    (made / "deep" / "run.sh").write_text("true")
    (made / "deep" / "run.sh").chmod(0o755)
    return made


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def test_a_copy_has_the_content_mode_and_time_of_what_was_made(made: Path, tmp_path: Path) -> None:
    os.utime(made / "model.pt", ns=(1, 1_700_000_000_123_456_789))
    assert copy_inside(made, tmp_path / "copy") == []
    assert names(tmp_path / "copy") == names(made)
    assert (tmp_path / "copy" / "model.pt").read_bytes() == b"weights"
    assert (tmp_path / "copy" / "model.pt").stat().st_mtime_ns == 1_700_000_000_123_456_789
    assert (tmp_path / "copy" / "deep" / "run.sh").stat().st_mode & 0o777 == 0o755


def test_links_within_stay_links_and_mean_the_same(made: Path, tmp_path: Path) -> None:
    (made / "latest").symlink_to("model.pt")
    (made / "deep" / "up").symlink_to("../model.pt")
    (made / "absolute").symlink_to(made / "deep" / "run.sh")
    (made / "folder").symlink_to("deep")
    assert copy_inside(made, tmp_path / "copy") == []
    made.rename(tmp_path / "gone")
    for name, content in (
        ("latest", "weights"),
        ("deep/up", "weights"),
        ("absolute", "true"),
        ("folder/run.sh", "true"),
    ):
        assert (tmp_path / "copy" / name).read_text() == content
    assert (tmp_path / "copy" / "absolute").readlink() == Path("deep/run.sh")


def test_a_link_that_climbs_out_and_comes_back_by_name_holds_in_the_copy(made: Path, tmp_path: Path) -> None:
    (made / "deep" / "newest").symlink_to("../../made/model.pt")
    (made / "latest").symlink_to("../made/deep")
    assert copy_inside(made, tmp_path / "copy") == []
    made.rename(tmp_path / "gone")
    assert (tmp_path / "copy" / "deep" / "newest").read_text() == "weights"
    assert (tmp_path / "copy" / "latest" / "run.sh").read_text() == "true"


@pytest.mark.parametrize("aim", ["/", "../key", "/etc/passwd", "deep/../../key", "/dev/zero"])
def test_links_that_lead_out_are_left_out_and_named(made: Path, tmp_path: Path, aim: str) -> None:
    (made / "out").symlink_to(aim)
    (made / "by-way").symlink_to("out")
    assert copy_inside(made, tmp_path / "copy") == ["by-way", "out"]
    assert names(tmp_path / "copy") == ["deep", "deep/run.sh", "model.pt"]
    assert [path.name for path in files_inside(made)] == ["model.pt", "run.sh"]


def test_pipes_and_links_in_a_circle_do_not_hang(made: Path, tmp_path: Path) -> None:
    os.mkfifo(made / "pipe")
    (made / "here").symlink_to(".")
    (made / "self").symlink_to("self")
    assert copy_inside(made, tmp_path / "copy") == ["pipe"]
    assert [path.name for path in files_inside(made)] == ["model.pt", "run.sh"]


def test_a_folder_that_is_itself_a_link_is_not_entered(made: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(made)
    assert copy_inside(tmp_path / "link", tmp_path / "copy") == ["link"]
    assert names(tmp_path / "copy") == []
    assert list(files_inside(tmp_path / "link")) == []


def test_files_are_found_by_links_within(made: Path) -> None:
    (made / "latest").symlink_to("model.pt")
    assert [path.name for path in files_inside(made)] == ["latest", "model.pt", "run.sh"]


@pytest.mark.parametrize(
    ("name", "plain", "inner"),
    [
        ("model.pt", True, True),
        ("deep/model.pt", False, True),
        ("ä\udcff \\", True, True),
        ("..", False, False),
        (".", False, False),
        ("", False, False),
        ("/etc/passwd", False, False),
        ("a/../../b", False, False),
        ("a//b", False, False),
        ("a/", False, False),
        ("a\0b", False, False),
        ("\ud800", False, False),
        ("x" * 256, False, False),
        ("x/" * 3000 + "x", False, False),
        (7, False, False),
        (None, False, False),
    ],
)
def test_a_name_stays_where_it_is_put_or_is_refused(name: object, plain: bool, inner: bool) -> None:
    assert (is_plain(name), is_inner(name)) == (plain, inner)


def test_many_names_are_told_in_a_few_words() -> None:
    assert in_words(["a", "b"]) == "a, b"
    assert in_words(list("abcde")) == "a, b, c and 2 more"
