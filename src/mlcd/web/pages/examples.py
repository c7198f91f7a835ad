"""Programs to begin with: the examples that come with mlcd."""

from __future__ import annotations

import io
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlcd
from mlcd.core.jobfile.yaml import read_yaml
from mlcd.errors import NotFoundError, UserError

_SENTENCES = {
    "digits": "A small CNN on scikit-learn's handwritten digits, with PyTorch.",
    "digits_plain": "The same digits by a program that knows nothing of mlcd: its log is read.",
    "char_rnn": "A recurrent network that learns to write, letter by letter, with PyTorch.",
}


@dataclass(frozen=True)
class Example:
    """A program with its job file."""

    name: str
    about: str
    folder: Path

    def job(self) -> dict[str, Any]:
        """The keys of its job file."""
        return read_keys((self.folder / "job.yaml").read_text())

    def packed(self) -> bytes:
        """Its folder as a tar file, the same every time."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            for file in sorted(self.folder.iterdir()):
                if file.is_file():
                    info = tarfile.TarInfo(file.name)
                    info.size = file.stat().st_size
                    archive.addfile(info, io.BytesIO(file.read_bytes()))
        return packed.getvalue()


def examples() -> list[Example]:
    """All that came along."""
    folder = _folder()
    return [
        Example(name, about, folder / name)
        for name, about in _SENTENCES.items()
        if (folder / name / "job.yaml").is_file()
    ]


def example(name: str) -> Example:
    """The one of that name; or NotFoundError."""
    found = next((one for one in examples() if one.name == name), None)
    if found is None:
        raise NotFoundError(f"No example is called '{name[:40]}'.")
    return found


def read_keys(text: str) -> dict[str, Any]:
    """The keys in the text of a job file."""
    if not text.strip():
        return {}
    document = read_yaml(text)
    if document.problems:
        problem = document.problems[0]
        line = f"line {problem.line}: " if problem.line is not None else ""
        raise UserError(f"{line}{problem.message}")
    return document.data


def _folder() -> Path:
    """In the wheel beside this file, in a checkout at its top."""
    packed = Path(__file__).parent / "programs"
    return packed if packed.is_dir() else Path(mlcd.__file__).resolve().parents[2] / "examples"
