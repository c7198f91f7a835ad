"""The server reaches jobs through the client, and nothing but accounts through its site."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import mlcd

SOURCE = Path(mlcd.__file__).parent
FILES = sorted([*(SOURCE / "web").rglob("*.py"), *(SOURCE / "cli").rglob("*.py")])


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.relative_to(SOURCE).as_posix())
def test_nobody_reaches_through_the_client_to_the_store(file: Path) -> None:
    reached = [
        node.lineno
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Attribute) and node.attr == "store"
    ]
    assert reached == []
