"""Refreshes the output shown in these pages: `python docs/make_outputs.py [PAGE…]`.

A console block under the line `<!-- output -->` holds one command and, after it, what that command prints. The command
is run in the page's own folder with an empty home, 80 columns wide; ids of jobs are always shown with the same ending.
tests/docs/test_outputs.py fails where a page shows something else. Under `<!-- output about -->` it is content with
the same labels in the same order: which deployments a search tries may change with its strategy, or with the last digit
of a number.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

DOCS = Path(__file__).parent
BLOCK = re.compile(
    r"(?P<head><!-- output(?: about)? -->\n```console\n\$ (?P<command>[^\n]+)\n)(?P<output>.*?)(?=^```$)",
    re.DOTALL | re.MULTILINE,
)
_JOB_ID = re.compile(r"\b([a-z][a-z0-9-]*)-[0-9a-f]{6}\b")


def pages_with_output() -> Iterator[Path]:
    """The pages that show what a command prints."""
    return (page for page in sorted(DOCS.rglob("*.md")) if BLOCK.search(page.read_text(encoding="utf-8")))


def refreshed(page: Path) -> str:
    """The page with what its commands print now."""
    text = page.read_text(encoding="utf-8")
    return BLOCK.sub(lambda block: block["head"] + output_of(block["command"], page.parent), text)


def output_of(command: str, folder: Path) -> str:
    """What a command prints, standard error included, as the page shows it."""
    program, *arguments = shlex.split(command)
    if program != "mlcd":
        raise ValueError(f"only mlcd is run from pages, not {program!r}")
    with tempfile.TemporaryDirectory() as home:
        done = subprocess.run(
            [sys.executable, "-m", "mlcd.cli.main", *arguments],
            cwd=folder,
            env={**os.environ, "MLCD_HOME": home, "COLUMNS": "80", "NO_COLOR": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
            check=False,
        )
    lines = [_JOB_ID.sub(r"\1-3f2a1c", line.rstrip()) for line in done.stdout.splitlines()]
    return "\n".join(lines) + "\n"


def main(names: list[str]) -> None:
    """Rewrite the pages named, or all."""
    for page in [Path(name).resolve() for name in names] or pages_with_output():
        page.write_text(refreshed(page), encoding="utf-8")
        sys.stdout.write(f"{page} written\n")


if __name__ == "__main__":
    main(sys.argv[1:])
