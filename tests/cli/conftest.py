"""Running commands as a user does: arguments in, exit code and output back."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest

from cli.fake_client import Command, Done
from mlcd.cli.main import main


@pytest.fixture
def mlcd(capsys: pytest.CaptureFixture[str]) -> Command:
    """Run `mlcd` with these arguments on this client, not on a terminal."""

    def command(*arguments: str, client: Any = None) -> Done:
        code = main(arguments, client)
        out, err = capsys.readouterr()
        return Done(code, out, err)

    return command


@pytest.fixture
def someone_answers(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Have a person sit at the terminal who types this."""

    def answer(text: str) -> None:
        monkeypatch.setattr("sys.stdin", io.StringIO(text))
        monkeypatch.setattr("mlcd.cli.following.interactive", lambda: True)
        monkeypatch.setattr("mlcd.cli.machines.interactive", lambda: True)
        monkeypatch.setattr("mlcd.cli.jobs.interactive", lambda: True)

    return answer
