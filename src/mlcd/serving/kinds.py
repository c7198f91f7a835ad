"""Finds the file of a model's folder that can predict. Files are inspected here, and loaded only in a process of their own."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from mlcd.errors import NotFoundError

MOST_FILES = 10_000  # to inspect


class Kind(StrEnum):
    """The format of a model; the first that is found is used."""

    PREDICT_PY = "predict.py"  # the user's own function predict(inputs)
    TORCH_EXPORT = "torch.export"
    TORCHSCRIPT = "TorchScript"
    ONNX = "ONNX"
    KERAS = "Keras"
    SAVED_MODEL = "SavedModel"  # of TensorFlow: a folder
    SKLEARN = "scikit-learn"  # or whatever has a method predict, as joblib or pickle keep it


@dataclass(frozen=True)
class Servable:
    """A file that can predict."""

    kind: Kind
    path: Path  # of a SavedModel, its saved_model.pb


def find_servable(folder: Path, job_id: str) -> Servable:
    """The file of a model's folder that can predict."""
    files = list(_files(folder))
    for kind, fits in _FITS.items():
        for file in files:
            if fits(file):
                return Servable(kind, file)
    raise NotFoundError(
        f"The model of job {job_id} has no file that can predict.",
        "Let the program save a predict.py with a function predict(inputs), a SavedModel, or a file of torch.export, "
        "TorchScript, ONNX, Keras (.keras) or joblib.",
    )


def _files(folder: Path) -> Iterator[Path]:
    """The files, those near the top first."""
    found = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    few = [path for path, _ in zip(found, range(MOST_FILES), strict=False)]
    return iter(sorted(few, key=lambda path: (len(path.parts), path.name)))


def _entries(file: Path) -> list[str]:
    """Names in an archive, without the folder that they share; none: it is no archive."""
    try:
        with zipfile.ZipFile(file) as archive:
            return [name.partition("/")[2] for name in archive.namelist()]
    except (zipfile.BadZipFile, OSError, NotImplementedError):
        return []


def _is_export(file: Path) -> bool:
    return file.suffix in (".pt2", ".pt", ".pth") and "models/model.json" in _entries(file)


def _is_torchscript(file: Path) -> bool:
    named = file.suffix in (".pt", ".pth", ".pts", ".ts", ".torchscript")
    return named and any(name.startswith("code/") for name in _entries(file))


_FITS: dict[Kind, Callable[[Path], bool]] = {
    Kind.PREDICT_PY: lambda file: file.name == "predict.py",
    Kind.TORCH_EXPORT: _is_export,
    Kind.TORCHSCRIPT: _is_torchscript,
    Kind.ONNX: lambda file: file.suffix == ".onnx",
    Kind.KERAS: lambda file: file.suffix == ".keras" and zipfile.is_zipfile(file),
    Kind.SAVED_MODEL: lambda file: file.name == "saved_model.pb",
    Kind.SKLEARN: lambda file: file.suffix in (".joblib", ".pkl", ".pickle"),
}
