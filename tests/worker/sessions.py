"""A session as a cloud would give it to a training process."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mlcd.worker import session
from mlcd.worker.session import Session

Inside = Callable[..., Session]


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Inside]:
    """Opens the session of a task; keyword arguments are further variables of its environment."""
    opened: list[Session] = []

    def start(**variables: object) -> Session:
        monkeypatch.setenv("MLCD_TASK_ID", "task-1")
        monkeypatch.setenv("MLCD_PROGRESS_DIR", str(tmp_path / "progress"))
        monkeypatch.setenv("MLCD_CHECKPOINT_DIR", str(tmp_path / "checkpoints"))
        for name, value in variables.items():
            monkeypatch.setenv(name, str(value))
        for one in opened:
            close(one)
        monkeypatch.setattr(session, "_session", None)
        opened.append(session.current())
        return opened[-1]

    yield start
    for one in opened:
        close(one)


def close(one: Session) -> None:
    one.reporter.end()
    one.stop.restore_sigterm()


def lines(folder: Path, rank: int = 0) -> list[dict[str, Any]]:
    """What a rank has reported."""
    return [json.loads(line) for line in (folder / f"rank-{rank}.jsonl").read_text().splitlines()]
