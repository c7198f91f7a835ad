"""Built-in data sets, written to files once on this computer: from there they go where other mounted files go.

data.npz    x: a row for each sample; y: what is to be predicted
data.csv    the same with a line of names; what is to be predicted is the last column, target
*.txt       of texts
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mlcd.core.datasets import BUILTIN, DataSet, data_set, library_modules
from mlcd.core.job import Job
from mlcd.core.task import Task
from mlcd.errors import InvalidJobError, MissingExtraError


def refuse_missing_packages(job: Job) -> None:
    """Raise where a built-in data set is in a package that is not on this computer."""
    for where, source in job.file_mounts.items():
        if source.startswith(BUILTIN) and not (data := data_set(source.removeprefix(BUILTIN))).is_here:
            missing = _missing(data)
            raise InvalidJobError(missing.message, missing.hint, f"file_mounts.{where}")


def with_data_sets(task: Task, folder: Path) -> Task:
    """The task with files of this computer in the place of built-in data sets, which are kept in the folder."""
    mounts = {
        where: str(written(data_set(source.removeprefix(BUILTIN)), folder)) if source.startswith(BUILTIN) else source
        for where, source in task.file_mounts.items()
    }
    return replace(task, file_mounts=mounts)


def written(data: DataSet, folder: Path) -> Path:
    """The folder with the data set's files; it gets its name when all of them are there."""
    place = folder / data.name
    if _is_whole(data, place):
        return place
    folder.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{data.name}-", dir=folder))
    try:
        _write(data, draft)
        draft.chmod(0o755)
        _name(draft, place, data)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return place


def _is_whole(data: DataSet, place: Path) -> bool:
    return all((place / name).is_file() for name in data.files)


def _name(draft: Path, place: Path, data: DataSet) -> None:
    try:
        draft.rename(place)
    except OSError:
        if _is_whole(data, place):  # another process was first
            return
        for name in data.files:  # somebody has deleted some
            (draft / name).replace(place / name)


def _write(data: DataSet, into: Path) -> None:
    if data.package:
        _write_table(data, into)
        return
    for name, files in zip(data.files, library_modules(), strict=True):
        _write_text(files, into / name)


def _write_text(files: Sequence[Path], target: Path) -> None:
    with target.open("wb") as text:
        for file in files:
            text.write(file.read_bytes())


def _write_table(data: DataSet, into: Path) -> None:
    found = _from_scikit_learn(data)
    np.savez(into / "data.npz", x=found.data, y=found.target)
    names = ",".join([*(str(name).replace(",", " ") for name in found.feature_names), "target"])
    rows = np.column_stack([found.data, found.target])
    np.savetxt(into / "data.csv", rows, fmt="%.10g", delimiter=",", header=names, comments="")


def _from_scikit_learn(data: DataSet) -> Any:
    try:
        from sklearn import datasets
    except ImportError as missing:
        raise _missing(data) from missing
    return getattr(datasets, f"load_{data.name.replace('-', '_')}")()


def _missing(data: DataSet) -> MissingExtraError:
    return MissingExtraError(
        f"The built-in data set '{data.name}' is in scikit-learn, which is not on this computer.",
        "pip install scikit-learn",
    )
