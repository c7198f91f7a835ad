"""What a pod answers is checked: whoever runs the program may have changed what answers."""

from __future__ import annotations

import sys
from contextlib import closing

import pytest

from mlcd.clouds.kubernetes import session as sessions
from mlcd.clouds.kubernetes.session import BrokenSessionError, Session

QUESTION = {"path": "/x", "offset": 0, "most": 4}


def answering(line: str) -> Session:
    """A session with a pod that answers every question with this line, and zeros after it."""
    script = "import sys\nfor _ in sys.stdin: print(sys.argv[1] + '\\n' + '0' * 99, end='', flush=True)"
    return Session([sys.executable, "-SE", "-c", script, line])


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kubectl that has not ended is not waited for."""
    monkeypatch.setattr(sessions.Session, "_exit_code", lambda _: None)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    "line",
    [
        "{}",
        "[]",
        "7",
        "null",
        "no JSON",
        '{"bytes": null}',
        '{"bytes": "4"}',
        '{"bytes": -1}',
        '{"bytes": 1e999}',
        '{"bytes": 5}',
        '{"bytes": 1' + "0" * 400 + "}",
        "[" * 60_000,
        "{" + " " * 90_000,
    ],
)
def test_what_is_no_answer_breaks_the_session(line: str) -> None:
    with closing(answering(line)) as session, pytest.raises(BrokenSessionError) as caught:
        session.ask(QUESTION, 10.0)
    assert caught.value.said


def test_as_many_bytes_as_were_asked_for_are_taken() -> None:
    with closing(answering('{"bytes": 4}')) as session:
        assert session.ask(QUESTION, 10.0) == ({"bytes": 4}, b"0000")
