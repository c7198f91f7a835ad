"""Rows of a CSV file by column, read with errors that say where they are."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from mlcd.errors import UserError

T = TypeVar("T")


@dataclass(frozen=True)
class CsvRow:
    """The cells of one line by column."""

    file: Path
    line: int
    cells: dict[str, str]

    def need(self, column: str, read: Callable[[str], T]) -> T:
        """The cell's value; a blank cell is an error."""
        value = self.get(column, read)
        if value is None:
            raise UserError(f"{self.file}, line {self.line}, column '{column}': the cell is blank.")
        return value

    def get(self, column: str, read: Callable[[str], T]) -> T | None:
        """The cell's value; None where the cell is blank or the file has no such column."""
        text = self.cells.get(column, "")
        if not text:
            return None
        try:
            return read(text)
        except ValueError as error:
            where = f"{self.file}, line {self.line}, column '{column}'"
            raise UserError(f"{where}: '{text}' is not {error}.") from error


def read_columns(file: Path) -> list[str]:
    """The names in the first line."""
    _, names = next(_read_lines(file), (1, []))
    return [name.strip() for name in names]


def read_rows(file: Path) -> Iterator[CsvRow]:
    """Every line below the first that is not blank."""
    lines = _read_lines(file)
    _, names = next(lines, (1, []))
    columns = [name.strip() for name in names]
    for line, cells in lines:
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) > len(columns):
            raise UserError(f"{file}, line {line}: {len(cells)} cells under {len(columns)} columns.")
        yield CsvRow(file, line, dict(zip(columns, map(str.strip, cells), strict=False)))


def number(text: str) -> float:
    """A number, as a reader for a cell."""
    try:
        return float(text)
    except ValueError:
        raise ValueError("a number") from None


def positive(text: str) -> float:
    """A number above zero."""
    value = number(text)
    if not 0 < value < math.inf:
        raise ValueError("a number greater than zero")
    return value


def count(text: str) -> int:
    """A whole number above zero."""
    value = positive(text)
    if not value.is_integer():
        raise ValueError("a whole number")
    return int(value)


def _read_lines(file: Path) -> Iterator[tuple[int, list[str]]]:
    """The lines with their numbers."""
    try:
        with file.open(encoding="utf-8-sig", newline="") as text:
            reader = csv.reader(text)
            for cells in reader:
                yield reader.line_num, cells
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{file} cannot be read as CSV: {error}.") from error
