"""Each function fetches its own part of the data from the bucket, and keeps it for the program that comes after."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from function_tasks import log_of
from mlcd.core.task import TaskState
from mlcd.engine.buckets import with_fetches

boto3 = pytest.importorskip("boto3")
moto = pytest.importorskip("moto.server")

pytestmark = pytest.mark.slow


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Four shards in S3."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = moto.ThreadedMotoServer(port=0, verbose=False)
    server.start()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.get_host_and_port()[1]}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    client = boto3.client("s3")
    client.create_bucket(Bucket="data-sets")
    for number in range(4):
        client.put_object(Bucket="data-sets", Key=f"digits/{number}.npz", Body=bytes(1000 + number))
    yield "s3://data-sets/digits"
    server.stop()


def test_each_function_has_its_own_part_of_the_data_and_the_others_nowhere(fields: Any, bucket: str) -> None:
    field = fields(isolate=False)  # the bucket is on this computer, which is out of reach from a function's own network
    run = "echo data: $(ls data)"
    task = replace(field.task(run), file_mounts={"data": bucket}, shard_mounts=("data",))
    task, secrets = with_fetches(task, {})
    status = field.run(task, nodes=2, **secrets)
    assert status.state is TaskState.SUCCEEDED, (status, log_of(task), log_of(task, 1))
    parts = [re.findall(r"^data: (.*)$", log_of(task, node), re.M) for node in range(2)]
    assert parts == [["0.npz 2.npz"], ["1.npz 3.npz"]]
    assert all("fetched 2 files" in log_of(task, node) for node in range(2))
