"""`mlcd predict`: a file in, JSON out."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from mlcd.api import Client
from mlcd.cli.main import main
from mlcd.core.run import JobState
from mlcd.settings import Settings
from stories import SUBMITTED, record


@pytest.fixture
def client(tmp_path: Path) -> Client:
    made = Client(Settings(home=tmp_path / "home"))
    for job_id, state in (("done", JobState.SUCCEEDED), ("open", JobState.STOPPED)):
        made.store.add_job(replace(record(state, ended_at=SUBMITTED + 1.0), id=job_id))
    folder = made.settings.jobs / "done" / "model"
    folder.mkdir(parents=True)
    (folder / "predict.py").write_text("def predict(inputs): return [2 * each for each in inputs]")
    return made


@pytest.mark.parametrize("text", ["[1, 2]", '{"inputs": [1, 2]}'])
def test_the_answer_is_json(client: Client, tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in.json").write_text(text)
    assert main(["predict", "done", "--input", str(tmp_path / "in.json")], client) == 0
    assert json.loads(capsys.readouterr().out) == {"outputs": [2, 4]}
    client.close()


@pytest.mark.parametrize(
    ("job", "text", "code", "words"),
    [
        ("none", "[1]", 102, "No job"),
        ("open", "[1]", 102, "has no model"),
        ("done", "{", 2, "is not JSON"),
    ],
)
def test_what_cannot_be_asked_is_said(
    client: Client,
    tmp_path: Path,
    job: str,
    text: str,
    code: int,
    words: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "in.json").write_text(text)
    assert main(["predict", job, "--input", str(tmp_path / "in.json")], client) == code
    assert words in " ".join(capsys.readouterr().err.split())
    client.close()


def test_a_file_that_is_not_there_is_named(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", "done", "--input", "nowhere.json"], client) == 2
    assert "nowhere.json cannot be read" in " ".join(capsys.readouterr().err.split())
    client.close()
