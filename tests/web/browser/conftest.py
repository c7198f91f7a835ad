"""A real browser: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PATIENCE_MS = 60_000  # the machine may be busy; nothing waits so long when all is well


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """No longer than a module: Playwright holds an event loop that other tests would find running."""
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("Chromium is not on this machine")
    with playwright.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens pages, each in a browser of its own; what a page complains about fails the test."""
    from playwright.sync_api import expect

    expect.set_options(timeout=PATIENCE_MS)
    contexts, complaints = [], []

    def open_(url: str, **options: Any) -> Page:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda said: complaints.append(said.text) if _is_complaint(said) else None)
        page.goto(url)
        return page

    yield open_
    for context in contexts:
        context.close()
    assert complaints == []


def _is_complaint(said: Any) -> bool:
    """Errors of scripts and of the security policy; an answer that says no is not one."""
    return said.type == "error" and "Failed to load resource" not in said.text
