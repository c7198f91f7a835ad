"""The page of the papers: every preset has its rows, and no row is without a command that shows it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from doc_pages import DOCS, ROOT

presets = pytest.importorskip("mlcd_bench.presets.preset", reason="mlcd-bench is not installed")

PAGE = DOCS / "explanation" / "papers.md"
HEAD = ["figure", "command", "claim", "the paper", "here", "why they differ"]
PRESET = re.compile(r"`mlcd bench --preset (?P<name>[\w.-]+)`")
MODELS = "`mlcd bench models FOLDER`"  # on recorded jobs, which are not public
SCRIPT = re.compile(r"`python (?P<name>[\w./-]+\.py)( [^`]*)?`( \(as root\))?")  # what no preset can play


def test_every_table_of_figures_has_the_same_columns() -> None:
    heads = [rows[0] for rows in tables(PAGE.read_text())]
    assert HEAD in heads
    assert [head for head in heads if "command" in head and head != HEAD] == []


def test_no_row_is_without_a_command_that_exists() -> None:
    for command in commands(rows_of_all()):
        preset, script = PRESET.fullmatch(command), SCRIPT.fullmatch(command)
        assert preset or script or command == MODELS, f"{command} names neither a preset nor a script"
        assert preset is None or preset["name"] in presets.all_presets(), command
        assert script is None or (ROOT / script["name"]).is_file(), command


def test_every_preset_has_rows() -> None:
    named = {match["name"] for command in commands(rows_of_all()) if (match := PRESET.fullmatch(command))}
    missing = {*presets.all_presets()} - named
    assert not missing, f"no row in {PAGE.name} has the command of {', '.join(sorted(missing))}"


def test_every_row_says_what_is_claimed_told_and_found() -> None:
    for row in rows_of_all():
        assert len(row) == len(HEAD), row
        assert all(row[2:5]), row


def test_a_row_without_a_command_is_found() -> None:
    with pytest.raises(AssertionError, match="no command"):
        list(commands([["1", "", "faster", "2 ×", "3 ×", ""]]))
    with pytest.raises(AssertionError, match="no command for figure 2"):
        list(commands([["1", "`a`", "faster", "2 ×", "3 ×", ""], ["2", "", "slower", "2 ×", "3 ×", ""]]))


def rows_of_all() -> list[list[str]]:
    """The rows of all tables of figures, without their heads."""
    return [row for rows in tables(PAGE.read_text()) if rows[0] == HEAD for row in rows[1:]]


def commands(rows: list[list[str]]) -> Iterator[str]:
    """The command of each row; one that names neither figure nor command goes on with those above it."""
    last = ""
    for row in rows:
        last = row[1] or last
        assert last, f"no command in {row}"
        assert row[1] or not row[0], f"no command for figure {row[0]}"
        yield last


def tables(text: str) -> Iterator[list[list[str]]]:
    """The cells of each table, head first, the line below it left out."""
    for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in block.splitlines()]
        yield [row for row in rows if not all(set(cell) <= {"-", ":"} and cell for cell in row)]
