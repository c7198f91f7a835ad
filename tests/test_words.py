"""One idea, one word: names, messages, pages and docs use none of the words that were retired. ARCHITECTURE.md has the glossary."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
# Retired word → what to say instead.
RETIRED = {
    "keeper": "task runner",
    "supervisor": "task runner",
    "supervision": "task",
    "courier": "task runner",
    "scheduler": "task runner",
    "scheduling": "task",
    "errand": "task",
    "homecoming": "collect",
    "bringing": "download",
    "narrator": "status reader",
    "telling": "status",
    "hearing": "reports",
    "lately": "status",
    "verdict": "outcome",
    "verdicts": "outcomes",
    "judging": "probe result",
    "desk": "job context",
    "booking": "ledger",
    "stretch": "attempt",
    "stint": "invocation",
    "crew": "invoker",
    "reoptimise": "replan",
    "boss": "admin",
    "maker": "editor",
    "surroundings": "context",
    "seller": "provider",
}
RETIRED_PHRASES = {
    r"\bmend(ed)?\b": "fix",
    r"\bkeepers?\b": "task runner",
    r"\bin vain\b": "say what did not happen",
    r"\bcouriers?\b": "task runner",
    r"\bsupervisors?\b": "task runner",
    r"\bstretch(es)?\b": "attempt",
    r"\blook(s|ed|ing)? (for machines )?again\b": "replanning",
    r"\bhomecoming\b": "collecting",
    r"\bverdicts?\b": "outcome",
}


def test_no_module_and_no_class_is_called_by_a_retired_word() -> None:
    found = [
        f"{file.relative_to(ROOT)}: {name}: say '{RETIRED[word]}'"
        for file in (*sources(), *other_python())
        for name in (*file.relative_to(ROOT).with_suffix("").parts, *class_names(file))
        for word in retired_in(name)
    ]
    assert not found, "\n".join(found)


def test_no_function_and_no_field_is_called_by_a_retired_word() -> None:
    """Fields of what is written as JSON are read by people as well."""
    found = [
        f"{file.relative_to(ROOT)}: {name}: say '{RETIRED[word]}'"
        for file in sources()
        for name in functions_and_fields(file)
        for word in retired_in(name)
    ]
    assert not found, "\n".join(found)


def test_no_message_and_no_page_uses_a_retired_word() -> None:
    patterns = {re.compile(phrase, re.IGNORECASE): instead for phrase, instead in RETIRED_PHRASES.items()}
    found = [
        f"{place}: {text.strip()[:100]}: say '{instead}'"
        for place, text in (*sentences(), *lines_of_pages())
        for pattern, instead in patterns.items()
        if pattern.search(text)
    ]
    assert not found, "\n".join(found)


def test_a_retired_word_is_found_in_names_however_they_are_written() -> None:
    assert retired_in("RemoteCourier2_homecoming") == ["courier", "homecoming"]
    assert retired_in("Keepers") == ["keeper"]


def test_the_glossary_has_at_most_thirty_words() -> None:
    section = (ROOT / "ARCHITECTURE.md").read_text().partition("## Words")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| ")]
    words = [word.strip() for row in rows[1:] for word in row.split(",")]
    assert "task runner" in words
    assert len(words) == len(set(words)) <= 30


def sources() -> list[Path]:
    """Our modules, of all distributions."""
    folders = [ROOT / "src", *sorted((ROOT / "packages").glob("*/src"))]
    return [file for folder in folders for file in sorted(folder.rglob("*.py"))]


def other_python() -> list[Path]:
    """Benchmarks, examples and tests, whose names people read as well."""
    folders = [ROOT / "benchmarks", ROOT / "examples", ROOT / "tests", *sorted((ROOT / "packages").glob("*/tests"))]
    return [file for folder in folders for file in sorted(folder.rglob("*.py"))]


def class_names(file: Path) -> list[str]:
    return [node.name for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.ClassDef)]


def functions_and_fields(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name | ast.Attribute):
            yield ast.unparse(node.target)


def retired_in(name: str) -> list[str]:
    """The retired words in a name, of one thing or of several."""
    return [
        word for said in words_of(name) for word in dict.fromkeys((said, said.removesuffix("s"))) if word in RETIRED
    ]


def words_of(name: str) -> list[str]:
    """'RemoteTask_files' → remote, task, files."""
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)]


def sentences() -> Iterator[tuple[str, str]]:
    """Old stored names are single words, and migrations read old texts: neither counts."""
    for file in sources():
        for node in ast.walk(ast.parse(file.read_text())) if "migrations" not in file.parts else ():
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value.strip():
                yield f"{file.relative_to(ROOT)}:{node.lineno}", node.value


def lines_of_pages() -> Iterator[tuple[str, str]]:
    """Pages of the documentation, and those in the browser with their scripts."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "ARCHITECTURE.md", ROOT / "SECURITY.md"]
    browser = ROOT / "src" / "mlcd" / "web" / "pages"
    below = ((ROOT / "docs", "*.md"), (ROOT / "benchmarks", "*.md"), (browser, "*.html"), (browser, "*.js"))
    for page in [*pages, *(page for folder, kind in below for page in sorted(folder.rglob(kind)))]:
        for number, line in enumerate(page.read_text().splitlines(), 1):
            yield f"{page.relative_to(ROOT)}:{number}", line
