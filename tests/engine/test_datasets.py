"""Built-in data sets: written once, whole, as the list says."""

from __future__ import annotations

import csv
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from mlcd.api import Client
from mlcd.core.datasets import DataSet, data_set, data_sets
from mlcd.core.task import Task, TaskKind
from mlcd.engine.datasets import with_data_sets, written
from mlcd.errors import InvalidJobError, MissingExtraError
from small_jobs import MakeJob

EXACT = 0.02  # the container of arrays differs a little between versions of NumPy


@pytest.mark.parametrize("data", data_sets(), ids=lambda data: data.name)
def test_what_is_listed_is_what_is_written(data: DataSet, tmp_path: Path) -> None:
    if not data.is_here:
        pytest.skip(f"{data.package} is not installed")
    folder = written(data, tmp_path)
    assert sorted(path.name for path in folder.iterdir()) == sorted(data.files)
    assert sum(path.stat().st_size for path in folder.iterdir()) == pytest.approx(data.bytes, rel=EXACT)


@pytest.mark.parametrize("name", ["digits", "iris", "wine", "breast-cancer", "diabetes"])
def test_a_table_is_the_same_as_arrays_and_as_text_and_has_its_shape(name: str, tmp_path: Path) -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    folder = written(data_set(name), tmp_path)
    arrays = np.load(folder / "data.npz")
    with (folder / "data.csv").open() as text:
        names, *rows = list(csv.reader(text))
    assert names[-1] == "target"
    assert np.allclose(np.array(rows, dtype=float), np.column_stack([arrays["x"], arrays["y"]]))
    count, width = arrays["x"].shape
    shape = data_set(name).shape
    assert shape.startswith(f"{count:,} ")
    assert f" of {width} numbers" in shape or "images of 8 × 8" in shape
    classes = len(set(arrays["y"].tolist()))
    assert f"{classes} classes" in shape or "a number to predict" in shape


def test_the_library_is_kept_apart_for_validation(tmp_path: Path) -> None:
    folder = written(data_set("python-library"), tmp_path)
    train, validation = (folder / name for name in ("train.txt", "validation.txt"))
    assert "import" in train.read_text(errors="ignore")
    assert train.stat().st_size > 3 * validation.stat().st_size > 0


def test_a_task_gets_files_in_the_place_of_names(tmp_path: Path) -> None:
    mounts = {"data": "builtin:python-library", "own": "/somewhere", "far": "s3://bucket/x"}
    asked = Task("t1", "j", TaskKind.TRAINING, "command", "true", file_mounts=mounts)
    made = with_data_sets(asked, tmp_path)
    assert made.file_mounts == {**mounts, "data": str(tmp_path / "python-library")}
    assert with_data_sets(made, tmp_path) == made


def test_what_was_left_half_written_is_no_data_set(tmp_path: Path) -> None:
    half = tmp_path / ".python-library-killed"
    half.mkdir()
    (half / "train.txt").write_text("half")
    assert (written(data_set("python-library"), tmp_path) / "validation.txt").is_file()


def test_a_file_that_was_deleted_is_written_again(tmp_path: Path) -> None:
    place = written(data_set("python-library"), tmp_path)
    (place / "train.txt").unlink()
    assert written(data_set("python-library"), tmp_path) == place
    assert (place / "train.txt").is_file()
    assert [path.name for path in tmp_path.iterdir()] == ["python-library"]


def test_several_jobs_may_want_the_same_at_once(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        places = set(pool.map(lambda _: written(data_set("python-library"), tmp_path), range(4)))
    assert [path.name for path in tmp_path.iterdir()] == ["python-library"]
    assert places == {tmp_path / "python-library"}


def test_a_missing_package_is_named_with_the_line_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(MissingExtraError, match="'digits' is in scikit-learn") as caught:
        written(data_set("digits"), tmp_path)
    assert caught.value.hint == "pip install scikit-learn"
    assert list(tmp_path.iterdir()) == []


def test_a_package_that_is_missing_is_said_when_the_job_is_checked(
    client: Client, make_job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mlcd.core.datasets.find_spec", lambda name: None)
    loaded = client.load(make_job(file_mounts={"data": "builtin:digits"}))
    with pytest.raises(InvalidJobError, match=r"file_mounts\.data: .*'digits' is in scikit-learn") as refused:
        client.check(loaded)
    assert refused.value.hint == "pip install scikit-learn"
    client.check(client.load(make_job(file_mounts={"data": "builtin:python-library"})))
