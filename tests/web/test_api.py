"""The REST API: idempotency, what a job from afar may not reach, streams, headers, errors."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mlcd.core.run import JobState
from mlcd.core.task import TaskKind
from mlcd.web.site import Site
from store.store_samples import task
from web.people import API, Person, open_test_site

JOB = {"name": "local", "run": "true", "work": {"samples": 10}, "resources": {"instance_type": "local-1c"}}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server on loopback, without accounts."""
    made = open_test_site(tmp_path_factory.mktemp("api") / "home", accounts=False, upload_bytes=100_000)
    yield made
    made.close()


@pytest.fixture(scope="module")
def me(site: Site) -> Person:
    person = Person(site)
    person.http.base_url = "http://localhost"
    return person


def zipped(**files: str) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in files.items():
            archive.writestr(name.replace("__", "/") + ".py", content)
    return stream.getvalue()


# Idempotency


def test_the_same_key_and_body_give_the_same_answer_and_one_job(me: Person) -> None:
    sent = {"job": {**JOB, "name": "once"}}
    answers = [me("POST", "/jobs", sent, headers={"Idempotency-Key": "k1"}) for _ in range(3)]
    assert {answer.text for answer in answers} == {answers[0].text}
    assert [answer.headers.get("idempotency-replayed") for answer in answers] == [None, "true", "true"]
    assert len(me.get("/jobs", params={"q": "once"})["items"]) == 1


def test_the_same_key_for_another_body_is_refused(me: Person) -> None:
    key = {"Idempotency-Key": "k2"}
    me.post("/jobs", {"job": {**JOB, "name": "one"}}, headers=key)
    assert me("POST", "/jobs", {"job": {**JOB, "name": "two"}}, headers=key).status_code == 400
    assert me.get("/jobs", params={"q": "two"})["items"] == []


def test_a_refusal_is_given_again_for_the_same_key(me: Person) -> None:
    key = {"Idempotency-Key": "k3"}
    first, second = (me("POST", "/jobs", {"job": {"name": "bad"}}, headers=key) for _ in range(2))
    assert first.status_code == second.status_code == 422
    assert first.json() == second.json()


def test_a_server_killed_between_job_and_answer_makes_no_second_job(me: Person, site: Site) -> None:
    sent, key = {"job": {**JOB, "name": "cut off"}}, {"Idempotency-Key": "k4"}
    first = me.post("/jobs", sent, headers=key)
    with site.client.store._database.writing() as connection:  # as if it had died before it could answer
        connection.exec_driver_sql("UPDATE requests SET status = NULL, answer = NULL WHERE key = 'k4'")
    assert me.post("/jobs", sent, headers=key) == first
    assert len(me.get("/jobs", params={"q": "cut off"})["items"]) == 1


# What a job from afar may not reach


@pytest.mark.parametrize("workdir", ["/etc", "../..", "~", "~root", "a/../../b", "${HOME}", "sub/../../.."])
def test_a_workdir_is_within_the_upload(me: Person, workdir: str) -> None:
    code = me.post("/uploads", content=zipped(sub__train="x"))["upload"]["id"]
    answer = me("POST", "/jobs", {"job": {**JOB, "workdir": workdir}, "code": code})
    assert answer.status_code == 422, answer.text
    without = me("POST", "/jobs", {"job": {**JOB, "workdir": workdir}})
    assert without.status_code == 422


def test_a_workdir_may_be_a_folder_of_the_upload(me: Person, site: Site) -> None:
    code = me.post("/uploads", content=zipped(sub__train="x"))["upload"]["id"]
    job_id = me.post("/jobs", {"job": {**JOB, "workdir": "sub"}, "code": code})["id"]
    workdir = Path(site.client.store.job(job_id).job.workdir)
    assert (workdir / "train.py").read_text() == "x"
    assert workdir.is_relative_to(site.client.settings.home / "uploads")


@pytest.mark.parametrize("source", ["/etc/passwd", "../x", "upload:../../etc", "upload:" + "0" * 64, "secret.key"])
def test_mounted_files_are_uploads(me: Person, source: str) -> None:
    answer = me("POST", "/jobs", {"job": {**JOB, "file_mounts": {"x": source}}})
    assert answer.status_code in (400, 404, 422), answer.text
    inner = me("POST", "/jobs", {"job": {**JOB, "file_mounts": {"x": {"source": source}}}})
    assert inner.status_code in (400, 404, 422)


def test_built_in_data_sets_are_listed_and_mounted_by_their_names(me: Person, site: Site) -> None:
    listed = {each["name"]: each for each in me.get("/about")["datasets"]}
    assert listed["python-library"]["bytes"] > 1_000_000
    mounts = {"text": "builtin:python-library", "more": {"source": "builtin:digits"}}
    job_id = me.post("/jobs", {"job": {**JOB, "file_mounts": mounts}})["id"]
    kept = site.client.store.job(job_id).job.file_mounts
    assert kept == {"text": "builtin:python-library", "more": "builtin:digits"}
    for wrong in ("builtin:../../etc", "builtin:", "builtin:gone", "builtin:/etc/passwd"):
        assert me("POST", "/jobs", {"job": {**JOB, "file_mounts": {"x": wrong}}}).status_code == 422


def test_paths_do_not_come_in_by_overrides(me: Person) -> None:
    for key in ("workdir", "file_mounts", "file_mounts.x"):
        assert me("POST", "/jobs", {"job": JOB, "overrides": {key: "/etc"}}).status_code == 422


def test_the_environment_of_the_server_is_not_given_away(me: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVERS_OWN", "hidden")
    for key in ("envs", "secrets"):
        answer = me("POST", "/jobs", {"job": {**JOB, key: {"SERVERS_OWN": None}}})
        assert answer.status_code == 422
        assert "hidden" not in answer.text


@pytest.mark.parametrize("options", [{"trace": "/etc/passwd"}, {"state": "/tmp/x", "trace": "upload:x"}])
def test_options_of_a_cloud_name_no_path_of_the_server(me: Person, options: dict[str, str]) -> None:
    sent = {"job": JOB, "cloud": "replay", "cloud_options": options}
    assert me("POST", "/jobs", sent).status_code in (400, 404)
    assert me("POST", "/check", sent).status_code in (400, 404)
    assert me("POST", "/offers", {"cloud": "replay", "options": options}).status_code in (400, 404)


def test_jobs_run_on_the_clouds_that_the_admin_allows(tmp_path: Path) -> None:
    site = open_test_site(tmp_path / "home", accounts=False, clouds=("ec2",), insecure=True)
    answer = Person(site)("POST", "/jobs", {"job": JOB})
    assert answer.status_code == 400
    assert "may not run on 'local'" in answer.text
    site.close()


# Uploads


def test_the_same_content_under_the_same_name_is_kept_once(me: Person, site: Site) -> None:
    content = zipped(train="same")
    first = me.post("/uploads", content=content, params={"name": "a.zip"})
    second = me.post("/uploads", files={"file": ("a.zip", content)})
    assert first["upload"]["id"] == second["upload"]["id"]
    assert first["contents"]["scripts"] == ["train.py"]
    assert len(list((site.client.settings.home / "uploads").glob(first["upload"]["id"]))) == 1
    assert list((site.client.settings.home / "uploads" / "incoming").glob("*")) == []


@pytest.mark.parametrize("chunked", [True, False])
def test_too_much_is_refused_and_nothing_stays(me: Person, site: Site, chunked: bool) -> None:
    content: Any = (b"x" * 1000 for _ in range(200)) if chunked else b"x" * 200_000
    assert me("POST", "/uploads", content=content).status_code in (400, 413)
    assert list((site.client.settings.home / "uploads" / "incoming").glob("*")) == []


def test_a_bad_archive_is_refused_in_plain_words(me: Person) -> None:
    answer = me("POST", "/uploads", content=b"PK nonsense", params={"name": "code.zip"})
    assert answer.status_code == 422
    assert "not an archive" in answer.json()["error"]["message"]


def test_uploads_are_listed_in_pages(me: Person) -> None:
    sent = [me.post("/uploads", content=f"file {number}".encode())["upload"]["id"] for number in range(3)]
    first = me.get("/uploads", params={"limit": 2})
    second = me.get("/uploads", params={"limit": 2, "cursor": first["next"]})
    assert [item["id"] for item in first["items"] + second["items"]][:3] == sent[::-1]
    assert me("GET", "/uploads", params={"cursor": "x"}).status_code == 400


# Following


@pytest.fixture(scope="module")
def told(me: Person, site: Site) -> str:
    """A job at rest with 30 events and a log of two pages."""
    job_id = str(me.post("/jobs", {"job": {**JOB, "name": "told"}})["id"])
    for number in range(30):
        site.client.store.add_event(job_id, float(number), "decision", f"event {number + 1}")
    site.client.store.add_task(task(1, job_id, TaskKind.TRAINING))
    log = site.client.settings.jobs / job_id / "tasks" / task(1, job_id, TaskKind.TRAINING).id / "logs" / "node-0.log"
    log.parent.mkdir(parents=True)
    log.write_text("".join(f"line {number} {'x' * 100}\n" for number in range(4000)) + "the end")
    site.client.store.end_task(task(1, job_id, TaskKind.TRAINING).id, 5.0)
    site.client.store.change_job(job_id, state=JobState.STOPPED)
    return job_id


def test_events_come_in_pages(me: Person, told: str) -> None:
    first = me.get(f"/jobs/{told}/events", params={"limit": 20})
    second = me.get(f"/jobs/{told}/events", params={"limit": 20, "after": first["next"]})
    numbers = [event["number"] for page in (first, second) for event in page["items"]]
    assert numbers == list(range(1, 31))
    assert second["next"] is None


def test_a_stream_gives_events_in_order_then_the_view_then_that_it_is_over(me: Person, told: str) -> None:
    kinds, ids = _stream(me, f"/jobs/{told}/stream?ends=true")
    assert ids == list(range(1, 31))
    assert kinds == ["event"] * 30 + ["view", "over"]


def test_a_stream_goes_on_after_the_last_event_that_was_seen(me: Person, told: str) -> None:
    _, ids = _stream(me, f"/jobs/{told}/stream?ends=true", {"Last-Event-ID": "27"})
    assert ids == [28, 29, 30]


def test_a_log_comes_whole_in_pages_and_as_a_stream(me: Person, told: str) -> None:
    lines: list[str] = []
    place, over = 0, False
    while not over:
        page = me.get(f"/jobs/{told}/logs", params={"after": place})
        lines += page["lines"]
        place, over = page["next"], page["over"]
    assert [line.split()[1] for line in lines[:-1]] == [str(number) for number in range(4000)]
    assert lines[-1] == "the end"
    with me.http.stream("GET", f"{API}/jobs/{told}/logs/stream") as answer:
        data = [json.loads(line[6:]) for line in answer.iter_lines() if line.startswith("data: ")]
    assert [line for piece in data for line in piece.get("lines", [])] == lines


def test_the_log_of_an_unknown_task_is_not_found(me: Person, told: str) -> None:
    assert me("GET", f"/jobs/{told}/logs", params={"task": "x"}).status_code == 404
    assert me("GET", f"/jobs/{told}/logs/stream", params={"task": "x"}).status_code == 404


def _stream(me: Person, path: str, headers: dict[str, str] | None = None) -> tuple[list[str], list[int]]:
    with me.http.stream("GET", API + path, headers=headers) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = list(answer.iter_lines())
    kinds = [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]
    return kinds, [int(line.removeprefix("id: ")) for line in lines if line.startswith("id: ")]


# Around every request


def test_every_answer_has_strict_headers(me: Person) -> None:
    for path in ("/about", "/nothing", "/jobs/none"):
        headers = me("GET", path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "unsafe-inline" not in headers["content-security-policy"]
        assert headers["referrer-policy"] == "same-origin"
        assert headers["cache-control"] == "no-store"


def test_a_report_may_run_its_scripts_but_not_as_us(me: Person, told: str) -> None:
    answer = me("GET", f"/jobs/{told}/report")
    assert answer.status_code == 200
    assert answer.headers["content-security-policy"].startswith("sandbox allow-scripts;")
    assert "allow-same-origin" not in answer.headers["content-security-policy"]


def test_without_accounts_another_sites_page_can_do_nothing(me: Person) -> None:
    for headers in (
        {"Origin": "https://evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Origin": "null"},
        {"Origin": "http://localhost:9999"},
    ):
        assert me("POST", "/jobs", {"job": JOB}, headers=headers).status_code == 403
    assert me("POST", "/check", {"job": JOB}, headers={"Origin": "http://localhost"}).status_code == 200


def test_without_accounts_only_this_computer_is_answered(me: Person) -> None:
    for host in ("evil.example", "localhost.evil.example", "192.168.1.5:8080", ""):
        assert me("GET", "/about", headers={"Host": host}).status_code == 421
    for host in ("localhost:8080", "127.0.0.1", "[::1]:8080"):
        assert me("GET", "/about", headers={"Host": host}).status_code == 200


def test_errors_say_what_to_do_and_what_exit_code_it_is(me: Person) -> None:
    assert me("GET", "/jobs/tolld").json()["error"] == {
        "type": "NotFoundError",
        "message": "No job is called 'tolld'.",
        "hint": "Did you mean 'told'?",
        "exit_code": 102,
    }


@pytest.mark.parametrize(
    "body",
    [b"[" * 5000, b'{"job": {"name": "\\ud800"}}', b"\xff", b'{"job": {"run": "\\u0000"}}', b"NaN", b""],
)
def test_a_body_that_is_no_sound_json_is_the_senders_fault(me: Person, body: bytes) -> None:
    answer = me("POST", "/jobs", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422), answer.text


def test_a_large_body_is_refused(me: Person) -> None:
    assert me("POST", "/jobs", content=b"x" * 3_000_000).status_code == 413


def test_metrics_count_jobs_and_dollars(me: Person) -> None:
    text = me.http.get("/metrics").text
    assert 'mlcd_jobs{state="stopped"}' in text
    for name in ("mlcd_spent_usd", "mlcd_forecast_usd"):
        assert f"\n{name} " in text


def test_the_server_is_well(me: Person) -> None:
    assert me.http.get("/health").json()["status"] == "ok"


def test_the_openapi_document_describes_every_path(me: Person) -> None:
    paths = me.http.get(f"{API}/openapi.json").json()["paths"]
    assert f"{API}/jobs/{{job_id}}/stream" in paths
    assert "Idempotency-Key" in {p["name"].title() for p in paths[f"{API}/jobs"]["post"]["parameters"]}
