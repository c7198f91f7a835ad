"""Paths of the server are in no answer of a server that others use."""

from __future__ import annotations

import io
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlcd.core.run import JobState
from mlcd.web.paths import hider
from mlcd.web.site import Site
from web.people import API, Person, hire, open_test_site, set_up

JOB = {
    "name": "j",
    "run": "python train.py",
    "work": {"samples": 10},
    "resources": {"instance_type": "local-1c"},
    "workdir": "code",
}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = open_test_site(tmp_path / "home of it's")
    yield made
    made.close()


@pytest.fixture
def ada(site: Site) -> Person:
    return hire(site, set_up(site), "ada")


@pytest.fixture
def told(site: Site, ada: Person) -> str:
    """A job at rest whose events, error and log name places of the server."""
    home = site.client.settings.home
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("code/train.py", "")
    upload = ada.post("/uploads", content=packed.getvalue(), params={"name": "code.zip"})["upload"]["id"]
    job_id = str(ada.post("/jobs", {"job": JOB, "code": upload})["id"])
    site.client.store.add_event(job_id, 1.0, "warning", f"The model cannot be copied to {home}/jobs/{job_id}/model: no")
    site.client.store.change_job(
        job_id, state=JobState.FAILED, error=f"no space on {home}", ended_at=2.0, exit_code=100
    )
    return job_id


@pytest.mark.parametrize(
    "path",
    [
        "{api}/jobs/{job}",
        "{api}/jobs/{job}/record",
        "{api}/jobs/{job}/story",
        "{api}/jobs/{job}/events",
        "{api}/jobs/{job}/stream?ends=true",
        "{api}/jobs/{job}/report",
        "{api}/jobs",
        "{api}/views",
        "/jobs/{job}",
        "/jobs",
    ],
)
def test_no_answer_names_a_place_of_the_server(site: Site, ada: Person, told: str, path: str) -> None:
    answer = ada.http.get(path.format(api=API, job=told))
    assert answer.status_code == 200, answer.text
    home = str(site.client.settings.home)
    for written in (
        home,
        home.replace("'", "&#39;"),
        home.replace("'", "&#x27;"),
        home.replace("'", "\\u0027"),
    ):
        assert written not in answer.text
    if "content-length" in answer.headers:
        assert int(answer.headers["content-length"]) == len(answer.content)


def test_what_is_said_instead_means_something(ada: Person, told: str) -> None:
    events = ada.get(f"/jobs/{told}/events")["items"]
    assert f"cannot be copied to $MLCD_HOME/jobs/{told}/model: no" in events[-1]["message"]
    record = ada.get(f"/jobs/{told}/record")
    assert record["error"] == "no space on $MLCD_HOME"
    assert record["job"]["workdir"].startswith("upload:")
    assert record["job"]["workdir"].endswith("/code")


def test_errors_name_no_place_of_the_server(site: Site, ada: Person) -> None:
    upload = ada.post("/uploads", content=b"1", params={"name": "a.csv"})["upload"]["id"]
    mounts = {"x": f"upload:{upload}/missing.csv"}
    job = {key: value for key, value in JOB.items() if key != "workdir"}
    answer = ada("POST", "/check", {"job": {**job, "file_mounts": mounts}})
    assert answer.status_code >= 400
    assert str(site.client.settings.home) not in answer.text
    assert f"upload:{upload}/missing.csv" in answer.text


def test_a_model_is_sent_as_it_is(site: Site, ada: Person, told: str) -> None:
    folder = site.client.settings.jobs / told / "model"
    folder.mkdir()
    content = f"trained in {site.client.settings.home}".encode() * 1000
    (folder / "note.txt").write_bytes(content)
    site.client.store.change_job(told, state=JobState.SUCCEEDED, error="", exit_code=0)
    packed = ada.http.get(f"{API}/jobs/{told}/model").content
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        assert archive.read("note.txt") == content


def test_a_path_is_taken_out_whole_and_its_likes_stay() -> None:
    hide = hider(Path("/srv/mlcd"))
    said = b'"/srv/mlcd/jobs" /srv/mlcd2 /srv/mlcd-old /srv/mlcd.db /srv/mlcd.'
    assert hide(said) == b'"$MLCD_HOME/jobs" /srv/mlcd2 /srv/mlcd-old /srv/mlcd.db $MLCD_HOME.'
    assert hide(b"/srv/mlcd/uploads/" + b"a" * 64 + b"/content/x.py") == b"upload:" + b"a" * 64 + b"/x.py"
    assert hide(f"{sys.prefix}/lib/x.py".encode()) == b"$PYTHON/lib/x.py"


def test_a_home_behind_a_link_is_taken_out_by_both_its_names(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "home").symlink_to(tmp_path / "disk")
    hide = hider(tmp_path / "home")
    for said in (f"{tmp_path}/home/jobs/x", f"{tmp_path}/disk/jobs/x"):
        assert hide(said.encode()) == b"$MLCD_HOME/jobs/x"


def test_on_ones_own_computer_paths_are_shown(tmp_path: Path) -> None:
    site = open_test_site(tmp_path / "home", accounts=False)
    me = Person(site)
    me.http.base_url = "http://localhost"
    job_id = me.post("/jobs", {"job": {**JOB, "workdir": "", "run": "true"}})["id"]
    site.client.store.add_event(job_id, 1.0, "warning", f"see {tmp_path}/home/x")
    assert f"{tmp_path}/home/x" in me.get(f"/jobs/{job_id}/events")["items"][-1]["message"]
    site.close()
