"""The page on the REST API is the one that the server's own document makes."""

from __future__ import annotations

import importlib.util
from types import ModuleType

import pytest

from doc_pages import DOCS


@pytest.fixture(scope="module")
def maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_rest_api", DOCS / "make_rest_api.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date(maker: ModuleType) -> None:
    assert maker.PAGE.read_text(encoding="utf-8") == maker.make_page(), "run python docs/make_rest_api.py"


def test_every_operation_has_words_and_a_section(maker: ModuleType) -> None:
    page = maker.PAGE.read_text(encoding="utf-8")
    for path, operations in maker.openapi()["paths"].items():
        for method, operation in operations.items():
            assert operation.get("description"), f"{method} {path} has no docstring"
            assert f"\n### {method.upper()} {path}\n" in page
