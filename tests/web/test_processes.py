"""Several server processes on one PostgreSQL."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from mlcd.store import open_store
from store.conftest import postgres  # noqa: F401  a fixture
from web.people import PASSWORD
from web.servers import Server, served

JOB = {"name": "shared", "run": "true", "work": {"samples": 10}, "resources": {"instance_type": "local-1c"}}


@pytest.fixture
def server(postgres: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:  # noqa: F811
    options = ("--accounts", "--workers", "2", "--posts-per-minute", "10000")
    with served(tmp_path_factory.mktemp("workers") / "home", *options, MLCD_STORE=postgres) as running:
        yield running


@pytest.mark.slow
def test_workers_share_sessions_keys_and_budgets(server: Server, postgres: str) -> None:  # noqa: F811
    first = {"name": "admin", "password": PASSWORD, "setup_token": server.setup_token()}
    status, headers, session = _post(server, "/setup", first, {})
    assert status == 200, session
    cookie = {"Cookie": headers["set-cookie"].partition(";")[0], "X-CSRF-Token": session["csrf"]}
    status, _, made = _post(server, "/tokens", {"label": "x"}, cookie)
    assert status == 201
    token = {"Authorization": f"Bearer {made['text']}"}

    def submit(number: int) -> tuple[int, str]:
        key = {**token, "Idempotency-Key": f"key-{number % 4}"}
        status, _, answer = _post(server, "/jobs", {"job": {**JOB, "name": f"shared {number % 4}"}}, key)
        return status, answer["id"]

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(submit, range(24)))
    assert {status for status, _ in answers} == {201}
    assert len({job_id for _, job_id in answers}) == 4, "the same key, the same job, whichever process answers"
    assert len(_get(server, "/jobs", token)["items"]) == 4
    with closing(open_store(postgres)) as store:
        kept = store.accounts.password("admin")
    assert kept.startswith("$argon2id$v=19$m=65536,t=3,"), "slow on purpose, unlike in tests without a server"


def _post(
    server: Server, path: str, body: object, headers: dict[str, str]
) -> tuple[int, dict[str, str], dict[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    sent = {"Content-Type": "application/json", **headers}
    connection.request("POST", f"/api/v1{path}", json.dumps(body), sent)
    answer = connection.getresponse()
    found = json.loads(answer.read())
    connection.close()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, found


def _get(server: Server, path: str, headers: dict[str, str]) -> dict[str, list[object]]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("GET", f"/api/v1{path}", headers=headers)
    found: dict[str, list[object]] = json.loads(connection.getresponse().read())
    connection.close()
    return found
