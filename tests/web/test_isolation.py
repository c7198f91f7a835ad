"""Two users cannot see each other's things by any route: the routes are enumerated, so that none is forgotten."""

from __future__ import annotations

import hashlib
import io
import re
import threading
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mlcd.core.run import JobState
from mlcd.web import streams
from mlcd.web.app import create_app
from mlcd.web.site import Site, open_site
from web.people import API, Person, hire, open_test_site, set_up

MARK = "adas-marker"
SECRET = "ADAS_SECRET"
NOBODYS = {
    "job_id": "nothing-123456",
    "upload_id": "0" * 64,
    "digest": "0" * 64,
    "token_id": "0" * 16,
    "name": "NOTHING",
    "entry": "nothing",
}
BODIES: dict[str, Any] = {
    f"{API}/check": {"job": {"name": "x", "run": "true", "work": {"samples": 1}}},
    f"{API}/jobs": {"job": {"name": "x", "run": "true", "work": {"samples": 1}}},
    f"{API}/secrets/{{name}}": {"value": "bobs"},
    f"{API}/tokens": {"label": "bobs"},
}
FOR_EVERYONE = {  # routes with a name in the path that stands for one's own things
    ("PUT", f"{API}/secrets/{{name}}"),
}


@dataclass(frozen=True)
class World:
    site: Site
    ada: Person
    others: dict[str, Person]
    names: dict[str, str]  # parameters of paths that lead to what is Ada's


@pytest.fixture(autouse=True)
def _streams_look_up_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "BEAT_SECONDS", 0.2)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    site = open_test_site(tmp_path_factory.mktemp("isolation") / "home")
    admin = set_up(site)
    ada = hire(site, admin, "ada", team="red")
    others = {
        "bob": hire(site, admin, "bob"),
        "a teammate": hire(site, admin, "cleo", team="red"),
        "a viewer of another team": hire(site, admin, "eye", role="viewer"),
    }
    yield World(site, ada, others, _plant(site, ada))
    site.close()


def _plant(site: Site, ada: Person) -> dict[str, str]:
    """A job that is done, with events, a log, a model; an upload, a secret, a token: all marked."""
    content = _zip()
    ada.post("/uploads", content=content)
    upload = ada.post("/uploads", content=content, params={"name": f"{MARK}.zip"})["upload"]["id"]
    job = {
        "name": MARK,
        "run": f"echo {MARK}",
        "work": {"samples": 10},
        "resources": {"instance_type": "local-1c"},
    }
    job_id = ada.post("/jobs", {"job": job, "code": upload})["id"]
    folder = site.client.settings.jobs / job_id
    (folder / "model").mkdir()
    (folder / "model" / MARK).write_text(MARK)
    site.client.store.change_job(job_id, state=JobState.SUCCEEDED, error=MARK)
    site.client.store.add_event(job_id, 1.0, "state", MARK)
    ada("PUT", f"/secrets/{SECRET}", {"value": MARK})
    token = ada.post("/tokens", {"label": MARK})["token"]["id"]
    return {
        "job_id": job_id,
        "upload_id": upload,
        "digest": hashlib.sha256(content).hexdigest(),
        "token_id": token,
        "name": SECRET,
        "entry": MARK,
    }


def _zip() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr(f"{MARK}.py", f"print('{MARK}')")
    return stream.getvalue()


def _routes() -> list[tuple[str, str]]:
    """Method and path of every route of the application."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        site = open_test_site(Path(folder) / "home")
        found = [
            (method, route.path)
            for route in _flat(create_app(site).routes)
            for method in sorted(set(getattr(route, "methods", None) or ()) - {"HEAD", "OPTIONS"})
        ]
        site.close()
    return found


def _flat(routes: Iterable[Any]) -> Iterator[Any]:
    """Included routers stand as one route in newer versions of FastAPI."""
    for route in routes:
        yield from route.effective_route_contexts() if hasattr(route, "effective_route_contexts") else [route]


ROUTES = _routes()


def test_there_are_routes_to_look_at() -> None:
    assert len(ROUTES) > 30
    assert ("GET", f"{API}/jobs/{{job_id}}/logs") in ROUTES


def test_ada_sees_what_is_hers(world: World) -> None:
    names = world.names
    assert MARK in world.ada("GET", f"/jobs/{names['job_id']}").text
    assert MARK in world.ada("GET", "/jobs").text
    assert MARK in world.ada("GET", f"/uploads/{names['upload_id']}").text
    assert MARK in world.ada("GET", f"/uploads/by-content/{names['digest']}").text
    assert MARK.encode() in world.ada("GET", f"/jobs/{names['job_id']}/model").content
    assert SECRET in world.ada("GET", "/secrets").text


@pytest.mark.parametrize(("method", "path"), ROUTES, ids=lambda value: str(value))
def test_nobody_else_sees_it_by(world: World, method: str, path: str) -> None:
    parameters = set(re.findall(r"{(\w+)(?::\w+)?}", path))
    assert parameters <= NOBODYS.keys(), f"say in NOBODYS and _plant what {parameters} of {path} is"
    for who, person in world.others.items():
        answer = _ask(world.site, person, method, path, world.names)
        said = answer.text.replace(world.names["job_id"], "").replace(world.names["upload_id"], "")
        assert MARK not in said, (who, said[:500])
        assert SECRET not in said.replace(f"'{SECRET}'", ""), (who, said[:500])
        assert answer.status_code < 500, (who, answer.text)
        if parameters and (method, path) not in FOR_EVERYONE:
            assert answer.status_code in (403, 404), (who, answer.status_code, answer.text)
            _assert_same(answer, _ask(world.site, person, method, path, NOBODYS), world.names)
        person("DELETE", f"/secrets/{SECRET}")  # the one of their own that they may have set
    assert _still_hers(world)


@pytest.mark.parametrize("key", ["code", "trace", "mount"])
def test_an_upload_of_somebody_else_cannot_be_used(world: World, key: str) -> None:
    job: dict[str, Any] = {"name": "x", "run": "cat *", "work": {"samples": 1}}
    upload = world.names["upload_id"]
    sent: dict[str, Any] = {
        "code": {"job": job, "code": upload},
        "trace": {"job": job, "cloud": "replay", "cloud_options": {"trace": f"upload:{upload}/{MARK}.py"}},
        "mount": {"job": {**job, "file_mounts": {"x": f"upload:{upload}"}}},
    }[key]
    answer = world.others["bob"]("POST", "/jobs", sent)
    assert answer.status_code == 404, answer.text


@pytest.mark.parametrize("mount", ["s3://payroll/2026", {"source": "s3://payroll", "mode": "COPY"}])
def test_the_servers_credentials_read_no_bucket_for_a_user(world: World, mount: Any) -> None:
    job = {"name": "x", "run": "cat *", "work": {"samples": 1}, "file_mounts": {"x": mount}}
    answer = world.others["bob"]("POST", "/jobs", {"job": job})
    assert 400 <= answer.status_code < 500
    assert "only admins may" in answer.text


def test_names_and_beginnings_of_ids_lead_to_ones_own_jobs_only(world: World) -> None:
    bob = world.others["bob"]
    for reference in (MARK, MARK[:4], world.names["job_id"][:-2], world.names["job_id"]):
        answer = bob("GET", f"/jobs/{reference}")
        assert answer.status_code == 404
        assert world.names["job_id"] not in answer.json()["error"]["hint"]


def _ask(site: Site, person: Person, method: str, path: str, names: dict[str, str]) -> Any:
    """What they are told; a stream that does not end is ended after what it says first."""
    filled = re.sub(r"{(\w+)(?::\w+)?}", lambda match: names[match[1]], path)
    body = BODIES.get(path, {}) if method in ("POST", "PUT", "PATCH") else None
    end = threading.Timer(2.0, setattr, (site.hub, "closed", True))
    end.start()
    try:
        return person.http.request(method, filled, json=body, follow_redirects=False)
    finally:
        end.cancel()
        site.hub.closed = False


def _assert_same(theirs: Any, nobodys: Any, names: dict[str, str]) -> None:
    """What belongs to somebody else looks like what is not there at all."""

    def normal(answer: Any, names: dict[str, str]) -> Any:
        text = answer.text
        for value in sorted(names.values(), key=len, reverse=True):
            text = text.replace(value, "…")
        return answer.status_code, re.sub(r'"hint": ?"[^"]*"', "", re.sub(r"nonce-?[^\"']*", "", text))

    assert normal(theirs, names) == normal(nobodys, NOBODYS)


def _still_hers(world: World) -> bool:
    record = world.site.client.store.job(world.names["job_id"])
    sealed = world.site.service.sealed("ada")
    tokens = {token.id for token in world.site.accounts.tokens("ada")}
    return (
        record.state is JobState.SUCCEEDED
        and not record.stop_asked
        and world.site.vault.open(sealed[SECRET]) == MARK
        and world.names["token_id"] in tokens
    )


def test_a_second_site_on_the_same_store_sees_the_same_accounts(world: World) -> None:
    again = open_site(world.site.client.settings, world.site.serve)
    assert again.accounts.page() == world.site.accounts.page()
    again.client.close()
    assert again.vault.signing_key == world.site.vault.signing_key
