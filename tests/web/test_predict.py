"""Models of jobs are asked over HTTP: by their owners, within limits, and the server goes on whatever they do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from mlcd.core.run import JobState
from mlcd.settings import PredictSettings
from mlcd.web.site import Site
from stories import SUBMITTED, record
from web.people import Person, hire, open_test_site, set_up

pytestmark = pytest.mark.slow

PROGRAM = """
import os, time
def predict(inputs):
    if inputs == "crash":
        os.abort()
    if inputs == "hang":
        time.sleep(60)
    return [float("nan") if value is None else value * 2 for value in inputs]
"""


@dataclass(frozen=True)
class Team:
    """Two people, and a model of the first."""

    site: Site
    ann: Person
    bob: Person


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    site = open_test_site(tmp_path_factory.mktemp("predict") / "home")
    site.client.settings = replace(site.client.settings, predict=PredictSettings(request_seconds=2.0))
    admin = set_up(site)
    ann, bob = hire(site, admin, "ann"), hire(site, admin, "bob")
    add_job(site, "double", "ann", PROGRAM)
    add_job(site, "bare", "ann", None)
    yield Team(site, ann, bob)
    site.close()


def add_job(site: Site, job_id: str, owner: str, program: str | None) -> None:
    made = record(JobState.SUCCEEDED, owner=owner, ended_at=SUBMITTED + 60.0)
    site.client.store.add_job(replace(made, id=job_id, job=replace(made.job, name=job_id)))
    folder: Path = site.client.settings.jobs / job_id / "model"
    folder.mkdir(parents=True)
    (folder / "weights.bin").write_bytes(b"0")
    if program is not None:
        (folder / "predict.py").write_text(program)


def test_a_model_is_described_and_asked(team: Team) -> None:
    assert team.ann.get("/models/double/predict")["kind"] == "predict.py"
    assert team.ann.post("/models/double/predict", {"inputs": [1, 2.5, None]}) == {"outputs": [2, 5.0, "NaN"]}


def test_a_crashing_and_a_hanging_model_leave_the_server_whole(team: Team) -> None:
    for words in ("crash", "hang"):
        refused = team.ann("POST", "/models/double/predict", {"inputs": words})
        assert refused.status_code == 409
        assert refused.json()["error"]["type"] == "TaskFailedError"
    assert team.ann.post("/models/double/predict", {"inputs": [4]}) == {"outputs": [8]}


def test_inputs_that_the_model_refuses_are_a_bad_request(team: Team) -> None:
    refused = team.ann("POST", "/models/double/predict", {"inputs": 3})
    assert refused.status_code == 400
    assert "TypeError" in refused.json()["error"]["message"]


def test_another_persons_model_is_not_found_by_any_verb(team: Team) -> None:
    for method, body in (("GET", None), ("POST", {"inputs": [1]})):
        theirs = team.bob(method, "/models/double/predict", body)
        nobodys = team.bob(method, "/models/nothing/predict", body)
        assert theirs.status_code == nobodys.status_code == 404
        assert theirs.json()["error"]["message"].replace("double", "nothing") == (nobodys.json()["error"]["message"])


def test_who_is_not_signed_in_is_sent_away(team: Team) -> None:
    assert Person(team.site)("POST", "/models/double/predict", {"inputs": [1]}).status_code == 401


def test_too_large_inputs_are_refused_before_they_are_read(team: Team) -> None:
    body = json.dumps({"inputs": [0.5] * 1_000_000})
    refused = team.ann.http.post("/api/v1/models/double/predict", content=body)
    assert refused.status_code == 413


def test_a_model_with_nothing_to_ask_is_not_found_and_says_what_to_do(team: Team) -> None:
    refused = team.ann("POST", "/models/bare/predict", {"inputs": [1]})
    assert refused.status_code == 404
    assert "predict.py" in refused.json()["error"]["hint"]


def test_unknown_kinds_of_numbers_are_refused(team: Team) -> None:
    assert team.ann("POST", "/models/double/predict", {"inputs": [1], "dtype": "load"}).status_code == 422
