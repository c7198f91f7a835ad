"""Errors that are not the program's fault are told to whoever runs it, in a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mlcd.sync import StoreFull, StoreLost, SyncTimeout
from mlcd.sync.errors import SIGN, SignedError


@pytest.mark.parametrize("error", [StoreLost, StoreFull])
def test_a_store_that_cannot_be_used_leaves_a_sign(
    error: type[SignedError], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SIGN, str(tmp_path / "sign.json"))
    error("It is gone.")
    assert json.loads((tmp_path / "sign.json").read_text()) == {"error": error.__name__, "ranks": []}


def test_the_missing_ranks_are_in_the_sign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SIGN, str(tmp_path / "sign.json"))
    SyncTimeout({3, 1}, 60.0)
    assert json.loads((tmp_path / "sign.json").read_text()) == {"error": "SyncTimeout", "ranks": [1, 3]}


def test_a_sign_that_cannot_be_written_hides_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SIGN, str(tmp_path / "missing" / "sign.json"))
    assert StoreLost("It is gone.").message == "It is gone."
