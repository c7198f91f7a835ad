"""Links lead somewhere, pictures are there, and the pages speak of the project alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from doc_pages import DOCS, ROOT, all_pages, without_code

LINK = re.compile(r"!?\[[^\]]*\]\((?P<target>[^)\s]+)\)")
LARGEST_PICTURE = 300_000  # bytes
FOREIGN_WORDS = re.compile(
    r"/work/|/tmp/(?!x\b)|\bshared/|\bBRIEF\b|\bsubagent|\bhelper session|\bthis session|\bsandbox|\bClaude|\bGPT|\bLLM\b"
    r"|\bTODO\b|\bFIXME\b|\bseamless|\bblazing|\bcutting[- ]edge|\brevolutionary|\bleverage",
    re.IGNORECASE,
)


def ids(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", all_pages(), ids=ids)
def test_links_lead_somewhere(page: Path) -> None:
    dead = [target for target in targets(page) if not leads_somewhere(page, target)]
    assert dead == []


@pytest.mark.parametrize("page", all_pages(), ids=ids)
def test_a_page_speaks_of_the_project_alone(page: Path) -> None:
    assert [match[0] for match in FOREIGN_WORDS.finditer(page.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize("page", all_pages(), ids=ids)
def test_a_page_has_one_title_and_it_comes_first(page: Path) -> None:
    prose = without_code(page)
    assert prose.startswith("# ")
    assert len(re.findall(r"^# ", prose, re.MULTILINE)) == 1


@pytest.mark.parametrize("page", all_pages(), ids=ids)
def test_code_blocks_are_closed_and_named(page: Path) -> None:
    fences = re.findall(r"^```(\w*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(fences) % 2 == 0
    assert all(fences[1::2][number] == "" for number in range(len(fences) // 2))
    if page.is_relative_to(DOCS):
        assert all(fences[::2]), "say the language of every block: text where it has none"


def test_every_page_is_in_the_index() -> None:
    index = DOCS / "README.md"
    linked = {(DOCS / target.partition("#")[0]).resolve() for target in targets(index)}
    pages = {page.resolve() for page in DOCS.rglob("*.md")} - {index.resolve()}
    assert sorted(str(page.relative_to(DOCS)) for page in pages - linked) == [], "name it in docs/README.md"


def test_pictures_are_small() -> None:
    pictures = list((DOCS / "images").iterdir())
    assert pictures
    assert [picture.name for picture in pictures if picture.stat().st_size > LARGEST_PICTURE] == []


def targets(page: Path) -> list[str]:
    """Where the links of a page lead, the web left out."""
    found = [match["target"] for match in LINK.finditer(without_code(page))]
    return [target for target in found if not target.startswith(("http://", "https://", "mailto:"))]


def leads_somewhere(page: Path, target: str) -> bool:
    name, _, anchor = target.partition("#")
    file = (page.parent / name).resolve() if name else page
    if not file.exists() or not file.is_relative_to(ROOT):
        return False
    return not anchor or anchor in anchors(file)


def anchors(page: Path) -> set[str]:
    """The names that headings go by, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", without_code(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
