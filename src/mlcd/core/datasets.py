"""Data sets that ship inside installed packages: to try a program on, without a download.

file_mounts: {data: "builtin:digits"}
"""

from __future__ import annotations

import sysconfig
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from mlcd.errors import did_you_mean

BUILTIN = "builtin:"  # what the source of a mount begins with
_TABLES = ("data.npz", "data.csv")
_SCIKIT_LEARN = "sklearn"
_HELD_OUT = 10  # one of so many modules of the library is not to train on


@dataclass(frozen=True)
class DataSet:
    """Data that is here already."""

    name: str
    about: str
    shape: str
    bytes: int  # of its files together
    files: tuple[str, ...] = _TABLES
    package: str = _SCIKIT_LEARN  # that it is in; empty: Python itself

    @property
    def is_here(self) -> bool:
        """Whether its package is installed."""
        return not self.package or find_spec(self.package) is not None


_OF_SCIKIT_LEARN = (
    DataSet("digits", "handwritten digits", "1,797 images of 8 × 8, 10 classes", 1_200_289),
    DataSet("iris", "flowers and their species", "150 rows of 4 numbers, 3 classes", 9_125),
    DataSet("wine", "chemistry of wines and their growers", "178 rows of 13 numbers, 3 classes", 31_729),
    DataSet("breast-cancer", "cells under a microscope, benign or not", "569 rows of 30 numbers, 2 classes", 261_983),
    DataSet(
        "diabetes", "patients and how their illness went on", "442 rows of 10 numbers, a number to predict", 105_532
    ),
)


def data_sets() -> tuple[DataSet, ...]:
    """All that mlcd knows of."""
    return *_OF_SCIKIT_LEARN, _library()


def data_set(name: str) -> DataSet:
    """The one of this name; ValueError names the nearest, or all."""
    known = {each.name: each for each in data_sets()}
    if name not in known:
        raise ValueError(f"no built-in data set is called '{name[:40]}'. {did_you_mean(name, known)}".removesuffix("."))
    return known[name]


def library_modules() -> tuple[list[Path], list[Path]]:
    """The modules of Python's own library: to train on, and to validate with."""
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    held_out = files[::_HELD_OUT]
    return [file for file in files if file not in held_out], held_out


def _library() -> DataSet:
    sizes = [file.stat().st_size for files in library_modules() for file in files]
    about = "the source code of Python's own library, to write letter by letter"
    return DataSet("python-library", about, f"{len(sizes)} modules", sum(sizes), ("train.txt", "validation.txt"), "")
