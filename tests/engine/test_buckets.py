"""Data in S3 comes to the program by itself, from a real server of S3's protocol."""

from __future__ import annotations

import io
import logging
import urllib.error
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mlcd.api import Client
from mlcd.core.run import JobState
from mlcd.core.task import Task, TaskKind
from mlcd.core.trial import FailureKind
from mlcd.engine.buckets import with_fetches
from mlcd.errors import UnfitDeploymentError, UserError
from mlcd.worker import fetch
from mlcd.worker.fetch import BucketFile
from small_jobs import MakeJob

boto3 = pytest.importorskip("boto3", reason="pip install 'mlcd[ec2]'")
moto = pytest.importorskip("moto.server", reason="pip install 'mlcd[emulate]'")

CONTENT = {
    "images/a.bin": b"a" * 1000,
    "images/deep/b.bin": b"b" * 2000,
    "images2/c.bin": b"no",
    "one.txt": b"one",
}
PROGRAM = """
import mlcd, os, time
sizes = [os.path.getsize("data/" + name) for name in ("a.bin", "deep/b.bin")]
assert sizes == [1000, 2000] and open("note.txt").read() == "one" and not os.path.exists("data/c.bin")
assert os.environ["AFTER"] == open("setup-was-here").read().strip()
for batch in mlcd.steps([[0] * 10] * 100):
    time.sleep(0.02)
"""


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = moto.ThreadedMotoServer(port=0, verbose=False)
    server.start()
    yield f"http://127.0.0.1:{server.get_host_and_port()[1]}"
    server.stop()


@pytest.fixture
def bucket(endpoint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """A bucket with a few objects, as the account of this process."""
    given = {
        "ENDPOINT_URL": endpoint,
        "ACCESS_KEY_ID": "key",
        "SECRET_ACCESS_KEY": "hush",
        "DEFAULT_REGION": "us-east-1",
    }
    for name, value in given.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    client = boto3.client("s3")
    client.create_bucket(Bucket="data-sets")
    for key, content in CONTENT.items():
        client.put_object(Bucket="data-sets", Key=key, Body=content)
    return client


def task(**mounts: str) -> Task:
    return Task("t1", "j", TaskKind.TRAINING, "command", "true", file_mounts=mounts, setup="echo hello")


def fetched(secret: str, folder: Path, monkeypatch: pytest.MonkeyPatch, **more: str) -> tuple[int, str]:
    """Exit code and words of the fetching in an empty working copy."""
    folder.mkdir(exist_ok=True)
    monkeypatch.chdir(folder)
    cache = {"XDG_CACHE_HOME": str(folder.parent / "cache")}
    with redirect_stdout(io.StringIO()) as words:
        code = fetch.main({fetch.VARIABLE: secret, **cache, **more})
    return code, words.getvalue()


def test_a_folder_and_a_file_of_a_bucket_come_to_their_places(
    bucket: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, secrets = with_fetches(
        task(data="s3://data-sets/images/", **{"note.txt": "s3://data-sets/one.txt"}), {"A": "b"}
    )
    assert (made.file_mounts, made.setup) == ({}, f"{fetch.COMMAND}\necho hello")
    assert secrets["A"] == "b"
    code, words = fetched(secrets[fetch.VARIABLE], tmp_path / "copy", monkeypatch)
    assert code == 0, words
    found = {
        str(path.relative_to(tmp_path / "copy")): path.read_bytes()
        for path in (tmp_path / "copy").rglob("*")
        if path.is_file()
    }
    assert found == {"data/a.bin": b"a" * 1000, "data/deep/b.bin": b"b" * 2000, "note.txt": b"one"}


def shard_of(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "shards").glob("*"))


def test_each_node_that_trains_fetches_its_own_part(
    bucket: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        bucket.put_object(Bucket="data-sets", Key=f"shards/{number}.npz", Body=bytes([number]))
    divided = replace(
        task(shards="s3://data-sets/shards", **{"note.txt": "s3://data-sets/one.txt"}), shard_mounts=("shards",)
    )
    _, secrets = with_fetches(divided, {})
    places = [{"NODE_RANK": str(node), "SKYPILOT_NUM_NODES": "3", "MLCD_SERVERS": "1"} for node in range(2)]
    for node, place in enumerate(places):
        code, words = fetched(secrets[fetch.VARIABLE], tmp_path / f"node-{node}", monkeypatch, **place)
        assert code == 0, words
        assert (tmp_path / f"node-{node}" / "note.txt").is_file()
    assert [shard_of(tmp_path / f"node-{node}") for node in range(2)] == [
        ["0.npz", "2.npz", "4.npz"],
        ["1.npz", "3.npz"],
    ]
    assert len(list((tmp_path / "cache").rglob("*.lock"))) == 6, "five shards and the note, each once"


def test_another_nodes_part_that_was_left_on_a_machine_is_removed(
    bucket: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that waited for its next task may be another node there, or one of more."""
    divided = replace(task(**{str(tmp_path / "data"): "s3://data-sets/images"}), shard_mounts=(str(tmp_path / "data"),))
    _, secrets = with_fetches(divided, {})
    for nodes, left in (("1", ["a.bin", "b.bin"]), ("2", ["b.bin"])):
        place = {"NODE_RANK": str(int(nodes) - 1), "SKYPILOT_NUM_NODES": nodes, fetch.OWN_MACHINE: "1"}
        assert fetched(secrets[fetch.VARIABLE], tmp_path / "copy", monkeypatch, **place)[0] == 0
        assert sorted(path.name for path in (tmp_path / "data").rglob("*.bin")) == left


def test_addresses_are_good_for_as_long_as_functions_may_begin(bucket: Any) -> None:
    """A function that is invoked anew on the third day fetches its data then."""
    _, secrets = with_fetches(task(data="s3://data-sets/images"), {})
    assert all("X-Amz-Expires=604800" in one.url for one in fetch.unpack(secrets[fetch.VARIABLE]))


def test_two_mounts_are_divided_alike(tmp_path: Path) -> None:
    files = [BucketFile(f"{mount}/{n}", "", 1, "", mount) for mount in ("images", "labels") for n in range(5)]
    for node in range(2):
        mine = fetch.own_part(files, node, 2)
        assert len({tuple(one.path[-1] for one in mine if one.divided == mount) for mount in ("images", "labels")}) == 1


def test_more_nodes_than_files_are_refused_before_any_is_rented(bucket: Any) -> None:
    divided = replace(task(data="s3://data-sets/images"), shard_mounts=("data",))
    with_fetches(divided, {}, workers=2)
    with pytest.raises(UnfitDeploymentError, match="s3://data-sets/images has 2 files, too few for 3 nodes"):
        with_fetches(divided, {}, workers=3)


@pytest.mark.slow
def test_a_deployment_of_more_nodes_than_files_costs_nothing(bucket: Any, client: Client, make_job: MakeJob) -> None:
    job = make_job(
        PROGRAM,
        work={"samples": 1000},
        num_nodes=2,
        search="exhaustive",
        file_mounts={"data": "s3://data-sets/images/deep"},
        shard_mounts="data",
    )
    view = client.drive(client.submit(client.load(job)))
    assert view.record.state is JobState.FAILED
    assert "has 1 file, too few for 2 nodes" in str(view.record.error)
    assert view.trials
    assert all(trial.failure and trial.failure.reason is FailureKind.UNFIT for trial in view.trials)
    assert all((trial.usd, trial.seconds) == (0.0, 0.0) for trial in view.trials)


@pytest.mark.slow
def test_a_training_does_not_move_to_more_nodes_than_files(bucket: Any, client: Client, make_job: MakeJob) -> None:
    data = {"file_mounts": {"data": "s3://data-sets/images/deep"}, "shard_mounts": "data"}
    plan = {"num_nodes": "1..2", "search": {"strategy": "random", "options": {"k": 1}}, "resources": {}}
    job_id = client.submit(client.load(make_job(work={"samples": 3000}, **data, **plan)))
    client.confirm(job_id)
    client.start(job_id)
    for view in client.follow(job_id):
        if view.run.attempts and view.run.attempts[-1].samples > 100:
            client.move(job_id, instance="local-1c", nodes=2)
            break
    view = list(client.follow(job_id))[-1]
    assert view.record.state is JobState.SUCCEEDED, view.record.error
    assert len(view.run.attempts) == 1
    assert view.record.move_asked is None
    told = [event.message for event in client.events(job_id) if event.message.startswith("Not moving to")]
    assert len(told) == 1
    assert "has 1 file, too few for 2 nodes" in told[0]


def test_what_was_fetched_before_is_not_fetched_again(
    bucket: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, secrets = with_fetches(task(data="s3://data-sets/images"), {})
    assert fetched(secrets[fetch.VARIABLE], tmp_path / "one", monkeypatch)[0] == 0
    bucket.delete_object(Bucket="data-sets", Key="images/a.bin")
    assert fetched(secrets[fetch.VARIABLE], tmp_path / "two", monkeypatch)[0] == 0
    assert (tmp_path / "two/data/a.bin").read_bytes() == b"a" * 1000


def test_large_files_are_linked(bucket: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "LINK_BYTES", 1500)
    _, secrets = with_fetches(task(data="s3://data-sets/images"), {})
    assert fetched(secrets[fetch.VARIABLE], tmp_path / "copy", monkeypatch)[0] == 0
    links = {path.name: path.is_symlink() for path in (tmp_path / "copy").rglob("*.bin")}
    assert links == {"a.bin": False, "b.bin": True}


def test_an_object_that_does_not_come_is_told_without_the_address(
    bucket: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, secrets = with_fetches(task(data="s3://data-sets/images"), {})
    bucket.delete_object(Bucket="data-sets", Key="images/a.bin")
    code, words = fetched(secrets[fetch.VARIABLE], tmp_path / "copy", monkeypatch)
    assert code == 1
    assert "data/a.bin: the store answers 404" in words
    assert "Signature" not in words
    assert "http" not in words


def test_an_answer_that_breaks_off_is_asked_for_again(
    bucket: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    real = fetch.urllib.request.urlopen

    def flaky(url: str, timeout: float) -> Any:
        asked.append(url)
        if len(asked) == 1:
            raise urllib.error.URLError("reset")
        return io.BytesIO(b"short") if len(asked) == 2 else real(url, timeout=timeout)

    monkeypatch.setattr(fetch.urllib.request, "urlopen", flaky)
    monkeypatch.setattr(fetch.time, "sleep", lambda _: None)
    _, secrets = with_fetches(task(**{"note.txt": "s3://data-sets/one.txt"}), {})
    assert fetched(secrets[fetch.VARIABLE], tmp_path / "copy", monkeypatch)[0] == 0
    assert len(asked) == 3


@pytest.mark.parametrize("where", ["/data", "~/data", "../data"])
def test_only_on_a_machine_of_its_own_may_data_lie_outside_the_working_copy(
    bucket: Any, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, secrets = with_fetches(task(**{where: "s3://data-sets/images"}), {})
    code, words = fetched(secrets[fetch.VARIABLE], tmp_path / "copy", monkeypatch)
    assert code == 1
    assert "is outside the working copy" in words


def test_what_is_wrong_with_a_bucket_is_told(bucket: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="there is nothing at s3://data-sets/gone"):
        with_fetches(task(data="s3://data-sets/gone"), {})
    with pytest.raises(UserError, match="cannot be listed: NoSuchBucket"):
        with_fetches(task(data="s3://no-such-bucket/x"), {})
    monkeypatch.setattr("mlcd.engine.buckets.MOST_BYTES", 100)
    with pytest.raises(UserError, match="too many files"):
        with_fetches(task(data="s3://data-sets/images"), {})


@pytest.mark.slow
def test_a_job_trains_on_what_lies_in_a_bucket(
    bucket: Any, client: Client, make_job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[bytes] = []
    real = fetch.pack
    monkeypatch.setattr(fetch, "pack", lambda files: made.append(real(files).encode()) or made[-1].decode())
    job = make_job(
        PROGRAM,
        work={"samples": 1000},
        envs={"AFTER": "yes"},
        setup="echo yes > setup-was-here",
        file_mounts={"data": "s3://data-sets/images", "note.txt": "s3://data-sets/one.txt"},
    )
    job_id = client.submit(client.load(job))
    client.confirm(job_id)
    view = client.drive(job_id)
    assert view.record.state is JobState.SUCCEEDED, view.record.error
    assert made, "addresses were signed"
    files = [path.read_bytes() for path in client.settings.home.rglob("*") if path.is_file()]
    assert not any(secret in content for secret in made for content in files), "signed addresses are secrets"


@pytest.mark.parametrize("key", ["images/../../x", "images/" + "n" * 300])
def test_an_object_whose_name_leads_elsewhere_is_refused(bucket: Any, key: str) -> None:
    bucket.put_object(Bucket="data-sets", Key=key, Body=b"x")
    try:
        with pytest.raises(UserError, match="would lie outside of data"):
            with_fetches(task(data="s3://data-sets/images"), {})
    finally:
        bucket.delete_object(Bucket="data-sets", Key=key)
