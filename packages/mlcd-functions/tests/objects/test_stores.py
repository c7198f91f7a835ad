"""Both object stores keep the same promises: a folder, and S3 by a real server of its protocol."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlcd.errors import UserError
from mlcd_functions.objects.base import ObjectStore, open_object_store
from mlcd_functions.objects.errors import (
    ObjectError,
    ObjectExists,
    ObjectNotFound,
    ObjectRefused,
    ObjectStoreUnavailable,
    ObjectTooLarge,
)
from mlcd_functions.objects.s3 import S3Objects

boto3 = pytest.importorskip("boto3")
moto = pytest.importorskip("moto.server")


@pytest.fixture(scope="module")
def s3_endpoint() -> Iterator[str]:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = moto.ThreadedMotoServer(port=0, verbose=False)
    server.start()
    port = server.get_host_and_port()[1]
    yield f"http://127.0.0.1:{port}"
    server.stop()


@pytest.fixture
def s3(s3_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of an empty place in S3."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    client = boto3.client("s3")
    client.create_bucket(Bucket="models")
    for each in client.list_objects_v2(Bucket="models").get("Contents", ()):
        client.delete_object(Bucket="models", Key=each["Key"])
    return "s3://models/some/prefix"


@pytest.fixture(params=["folder", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    url = (tmp_path / "objects").as_uri() if request.param == "folder" else request.getfixturevalue("s3")
    return open_object_store(url)


def test_no_more_is_read_than_was_asked_for(store: ObjectStore, tmp_path: Path) -> None:
    store.put("a", b"12345")
    assert store.get("a", 5) == b"12345"
    store.download("a", tmp_path / "a", 5)
    with pytest.raises(ObjectTooLarge, match="5 bytes; at most 4"):
        store.get("a", 4)
    with pytest.raises(ObjectTooLarge):
        store.download("a", tmp_path / "b", 4)
    assert not (tmp_path / "b").exists()


def test_what_is_put_can_be_got(store: ObjectStore) -> None:
    store.put("a/b.bin", b"first")
    store.put("a/b.bin", b"second")
    store.put("empty", b"")
    assert store.get("a/b.bin") == b"second"
    assert store.get("empty") == b""
    assert store.exists("a/b.bin")


def test_what_is_not_there_is_an_error_to_get_and_nothing_to_delete(store: ObjectStore) -> None:
    with pytest.raises(ObjectNotFound, match="'a/b'"):
        store.get("a/b")
    with pytest.raises(ObjectNotFound):
        store.get_version("a/b")
    assert not store.exists("a/b")
    store.delete("a/b")
    assert store.keys() == []


def test_deleting_twice_is_quiet(store: ObjectStore) -> None:
    store.put("a", b"x")
    store.delete("a")
    store.delete("a")
    assert not store.exists("a")


def test_keys_are_listed_by_how_they_start(store: ObjectStore) -> None:
    for key in ("data/part-2", "data/part-1", "data/other", "database", "model"):
        store.put(key, b"x")
    assert store.keys() == ["data/other", "data/part-1", "data/part-2", "database", "model"]
    assert store.keys("data") == ["data/other", "data/part-1", "data/part-2", "database"]
    assert store.keys("data/part") == ["data/part-1", "data/part-2"]
    assert store.keys("nothing/") == []


def test_only_the_first_puts_what_must_be_absent(store: ObjectStore) -> None:
    store.put("leader", b"0", if_absent=True)
    with pytest.raises(ObjectExists, match="'leader'"):
        store.put("leader", b"1", if_absent=True)
    assert store.get("leader") == b"0"


def test_only_the_version_that_was_read_is_replaced(store: ObjectStore) -> None:
    store.put("state", b"0")
    data, version = store.get_version("state")
    assert data == b"0"
    store.put("state", b"1", if_version=version)
    with pytest.raises(ObjectExists):
        store.put("state", b"2", if_version=version)
    assert store.get("state") == b"1"


def test_files_are_uploaded_and_downloaded(store: ObjectStore, tmp_path: Path) -> None:
    content = bytes(range(256)) * 50_000
    source, copy = tmp_path / "source", tmp_path / "copy"
    source.write_bytes(content)
    store.upload(source, "checkpoints/1/state.pt")
    store.download("checkpoints/1/state.pt", copy)
    assert copy.read_bytes() == content
    with pytest.raises(ObjectNotFound):
        store.download("checkpoints/2/state.pt", copy)
    assert copy.read_bytes() == content  # nothing half done
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["copy", "source"]


def test_a_bucket_that_does_not_exist_is_an_error(s3: str) -> None:
    nowhere = open_object_store("s3://no-such-bucket")
    with pytest.raises(ObjectError, match="cannot be written"):
        nowhere.put("a", b"x")


def test_a_store_that_does_not_answer_is_unavailable_after_the_retries(
    s3: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setitem(S3Objects.retries, "max_retries", 2)
    gone = open_object_store("s3://models")
    for attempt in (lambda: gone.get("a"), lambda: gone.put("a", b"x"), gone.keys):
        with pytest.raises(ObjectStoreUnavailable):
            attempt()


def test_credentials_of_a_profile_are_used_with_its_region(
    s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "credentials").write_text("[team]\naws_access_key_id = key\naws_secret_access_key = secret\n")
    (tmp_path / "config").write_text("[profile team]\nregion = us-east-1\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_PROFILE", "team")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    store = open_object_store(s3)
    store.put("a", b"x")
    assert store.get("a") == b"x"


def test_a_profile_that_is_not_there_is_told(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(ObjectRefused, match="nobody"):
        open_object_store(s3)


def test_a_region_in_the_url_goes_before_that_of_the_environment(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_object_store(f"{s3}?region=eu-west-3")
    assert isinstance(store, S3Objects)
    assert store.region == "eu-west-3"
    store.put("a/b", b"x")
    assert open_object_store(s3).keys() == ["a/b"]


def test_a_folder_that_may_not_be_written_to_is_refused(tmp_path: Path) -> None:
    store = open_object_store(tmp_path.as_uri())
    (tmp_path / ".mlcd").rmdir()
    (tmp_path / ".mlcd").symlink_to("/sys/kernel")  # not even root may make files there
    with pytest.raises(ObjectRefused):
        store.put("a", b"x")


def test_a_folder_that_cannot_be_used_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ObjectError):
        open_object_store((tmp_path / "file").as_uri())


@pytest.mark.parametrize("key", ["", "../secret", "/etc/passwd", "a//b", ".mlcd/lock"])
def test_keys_stay_inside_the_folder(tmp_path: Path, key: str) -> None:
    with pytest.raises(UserError, match="not a valid object key"):
        open_object_store(tmp_path.as_uri()).put(key, b"x")


@pytest.mark.parametrize("url", ["folder", "http://host/x", "s3://", "file://"])
def test_what_is_no_object_store_is_refused(url: str) -> None:
    with pytest.raises(UserError, match="not an object store"):
        open_object_store(url)


def test_links_in_a_folder_of_objects_lead_nowhere(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("secret")
    store = open_object_store((tmp_path / "objects").as_uri())
    store.put("reports/0", b"1")
    (tmp_path / "objects" / "reports" / "1").symlink_to(tmp_path / "key")
    (tmp_path / "objects" / "outside").symlink_to(tmp_path)
    assert store.keys() == ["reports/0"]
    for key in ("reports/1", "outside/key"):
        with pytest.raises(ObjectNotFound):
            store.get(key)
        with pytest.raises(ObjectNotFound):
            store.download(key, tmp_path / "here")
    assert not (tmp_path / "here").exists()
