"""A person at the terminal."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest


@pytest.fixture
def someone_answers(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Have a person sit at the terminal who types this."""

    def answer(text: str) -> None:
        monkeypatch.setattr("sys.stdin", io.StringIO(text))
        monkeypatch.setattr("mlcd.cli.follow.interactive", lambda: True)
        monkeypatch.setattr("mlcd.cli.machines.interactive", lambda: True)
        monkeypatch.setattr("mlcd.cli.jobs.interactive", lambda: True)

    return answer
