"""The page of the papers: every preset has its rows, and no row is without a command that plays it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from doc_pages import DOCS

presets = pytest.importorskip("mlcd_bench.presets", reason="mlcd-bench is not installed")

PAGE = DOCS / "explanation" / "papers.md"
HEAD = ["figure", "command", "claim", "the paper", "here", "why they differ"]
COMMAND = re.compile(r"`mlcd bench --preset (?P<preset>[\w.-]+)`")


def test_every_table_of_figures_has_the_same_columns() -> None:
    heads = [rows[0] for rows in tables(PAGE.read_text())]
    assert heads
    assert all(head == HEAD for head in heads)


def test_no_row_is_without_a_command_that_names_a_preset() -> None:
    assert set(row_presets()) <= {*presets.all_presets()}


def test_every_preset_has_rows() -> None:
    missing = {*presets.all_presets()} - set(row_presets())
    assert not missing, f"no row in {PAGE.name} has the command of {', '.join(sorted(missing))}"


def test_every_row_says_what_is_claimed_told_and_found() -> None:
    for row in rows_of_all():
        assert len(row) == len(HEAD), row
        assert all(row[2:5]), row


def test_a_row_without_a_command_is_found() -> None:
    with pytest.raises(AssertionError, match="no command"):
        list(commands([["1", "", "faster", "2 ×", "3 ×", ""]]))
    with pytest.raises(AssertionError, match="names no preset"):
        list(commands([["1", "`python figure.py`", "faster", "2 ×", "3 ×", ""]]))


def row_presets() -> Iterator[str]:
    """The preset of every row."""
    for rows in tables(PAGE.read_text()):
        yield from commands(rows[1:])


def rows_of_all() -> Iterator[list[str]]:
    """The rows of all tables, without their heads."""
    for rows in tables(PAGE.read_text()):
        yield from rows[1:]


def commands(rows: list[list[str]]) -> Iterator[str]:
    """The preset of each row; a row that names neither figure nor command goes on with those above it."""
    last = ""
    for row in rows:
        if row[1]:
            match = COMMAND.fullmatch(row[1])
            assert match, f"{row[1]} names no preset"
            last = match["preset"]
        assert last, f"no command in {row}"
        assert row[1] or not row[0], f"no command for figure {row[0]}"
        yield last


def tables(text: str) -> Iterator[list[list[str]]]:
    """The cells of each table, head first, the line below it left out."""
    for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in block.splitlines()]
        yield [row for row in rows if not all(set(cell) <= {"-", ":"} and cell for cell in row)]
