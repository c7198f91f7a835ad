"""What the pages show as printed is what is printed; what they show as made by a script is made by it."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from doc_pages import DOCS, Block, blocks

LABEL = re.compile(r"^[A-Z][a-z]+(?:,? [a-z]+)*", re.MULTILINE)  # "Chosen", "Why this deployment"
EXACT, ABOUT = blocks("console", "output"), blocks("console", "output about")


@pytest.mark.slow
@pytest.mark.parametrize("block", EXACT, ids=str)
def test_a_page_shows_what_its_command_prints(block: Block) -> None:
    assert shown(block) == printed(block), "run: python docs/make_outputs.py"


@pytest.mark.slow
@pytest.mark.parametrize("block", ABOUT, ids=str)
def test_a_page_shows_all_parts_of_what_its_command_prints(block: Block) -> None:
    assert labels(shown(block)) == labels(printed(block)), "run: python docs/make_outputs.py"


def test_there_is_output_to_check() -> None:
    assert EXACT
    assert ABOUT


def shown(block: Block) -> str:
    return block.text.partition("\n")[2]


def printed(block: Block) -> str:
    """What the command prints now."""
    command = block.text.partition("\n")[0].removeprefix("$ ")
    code = "import sys, pathlib, make_outputs as m; print(m.output_of(sys.argv[1], pathlib.Path(sys.argv[2])), end='')"
    call = [sys.executable, "-c", code, command, str(block.page.parent)]
    return subprocess.run(call, cwd=DOCS, capture_output=True, text=True, check=True).stdout


def labels(text: str) -> list[str]:
    """What each part is called; the parts on what was tried may be of any number."""
    return LABEL.findall(text)


def test_the_trace_of_the_tutorial_is_what_its_formula_gives() -> None:
    folder = DOCS / "tutorial"
    made = subprocess.run([sys.executable, "make_trace.py"], cwd=folder, capture_output=True, text=True, check=True)
    assert (folder / "trace.csv").read_text() == made.stdout
