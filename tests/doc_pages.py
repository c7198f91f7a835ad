"""The pages of the documentation and the blocks of code in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
_BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>[\w ]+) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE
)


@dataclass(frozen=True)
class Block:
    """A block of code, with the word in the comment above it, if there is one."""

    page: Path
    line: int
    language: str
    # partial: keys to be added to a job; manifest: of a cluster, no job; runs, contract: Python that is executed;
    # output: see make_outputs
    mark: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def all_pages() -> list[Path]:
    """Every page that a user may read."""
    others = [*sorted((ROOT / "examples").rglob("*.md")), *sorted(ROOT.glob("packages/*/README.md"))]
    return [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md")), *others]


def blocks(language: str, mark: str | None = None) -> list[Block]:
    """The blocks in a language, all or those with that mark."""
    found = [block for page in all_pages() for block in blocks_of(page) if block.language == language]
    return [block for block in found if mark is None or block.mark == mark]


def blocks_of(page: Path) -> Iterator[Block]:
    """The blocks of a page."""
    text = page.read_text(encoding="utf-8")
    for match in _BLOCK.finditer(text):
        line = text.count("\n", 0, match.start("language")) + 1
        yield Block(page, line, match["language"], match["mark"] or "", match["text"])


def without_code(page: Path) -> str:
    """A page's prose."""
    return _BLOCK.sub("", page.read_text(encoding="utf-8"))
