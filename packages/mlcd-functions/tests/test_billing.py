"""What a task on functions costs besides the functions: requests to the object store, and the parameter store."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

from function_tasks import Field, log_of, settings
from mlcd.core.task import TaskFolder, TaskState
from mlcd.settings import Settings
from mlcd_functions.cloud import FunctionsCloud
from mlcd_functions.collect import Collector
from mlcd_functions.counted_objects import PART_BYTES, CountedObjects
from mlcd_functions.files import Invocation, State, TaskFiles
from mlcd_functions.invoker import Invoker
from mlcd_functions.lambdas import Lambdas
from mlcd_functions.objects.base import open_object_store
from mlcd_functions.objects.errors import ObjectNotFound
from mlcd_functions.prices import Prices
from mlcd_functions.record import Record
from mlcd_functions.settings import FunctionsSettings

moto = pytest.importorskip("moto.server")


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = moto.ThreadedMotoServer(port=0, verbose=False)
    server.start()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.get_host_and_port()[1]}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    boto3.client("s3").create_bucket(Bucket="models")
    yield "s3://models/tasks"
    server.stop()


def test_requests_are_counted_as_s3_bills_them(tmp_path: Path) -> None:
    objects = CountedObjects(open_object_store((tmp_path / "objects").as_uri()))
    objects.put("small", b"x")
    with pytest.raises(ObjectNotFound):
        objects.get("missing")
    assert objects.keys() == ["small"]
    (tmp_path / "large").write_bytes(b"x" * (2 * PART_BYTES + 1))
    objects.upload(tmp_path / "large", "large")
    objects.download("large", tmp_path / "copy")
    objects.delete("large")
    assert (objects.reads, objects.writes) == (2, 1 + 1 + (1 + 3 + 1))


def test_reports_are_looked_for_once_in_a_while_where_looking_costs(tmp_path: Path) -> None:
    objects = CountedObjects(open_object_store((tmp_path / "objects").as_uri()))
    files = TaskFiles(tmp_path / "task")
    files.root.mkdir()
    state = State(1, "b", generation=1, latest=(Invocation(0, "i1", 1, 0.0, 1e12),))
    home = Collector(TaskFolder(tmp_path), tmp_path, 1)
    record = Record(files, home, objects, state, lost_seconds=30.0, read_seconds=1000.0)
    invoker = Invoker(Lambdas(FunctionsSettings(), tmp_path), "name", lambda: None)
    for _ in range(20):
        record.receive(invoker)
        record.change()
    assert (objects.reads, record.state.requests) == (1, (1, 0))


def test_a_function_that_would_be_lost_at_once_still_has_a_price(tmp_path: Path) -> None:
    away = FunctionsSettings(endpoint="aws", objects="s3://bucket", lost_seconds=0.0)
    assert list(FunctionsCloud(Settings(home=tmp_path, clouds=(away,))).offers())


def test_offers_know_what_comes_with_functions(tmp_path: Path) -> None:
    here = next(iter(FunctionsCloud(settings(tmp_path)).offers()))
    away = FunctionsSettings(
        endpoint="aws", objects="s3://bucket", duration_seconds=75, subnets="subnet-1", security_groups="sg-1"
    )
    offers = list(FunctionsCloud(Settings(home=tmp_path, clouds=(away,))).offers())
    there = offers[0]
    assert (here.extras_usd_per_hour, here.lifetime_seconds) == (0.0, 870.0)
    assert there.lifetime_seconds == 45.0
    per_report = (0.005 + 2 * 0.0004) / 1000
    assert there.extras_usd_per_hour == pytest.approx(360 * per_report)  # every 10 s: a third of lost_seconds
    assert offers[-1].extras_usd_per_hour == pytest.approx(720 * per_report)  # every 5 s
    shares = [offer.extras_usd_per_hour / offer.usd_per_hour for offer in offers if offer.instance.memory_gib >= 1]
    assert max(shares) <= 0.051
    assert here.store_usd_per_hour == Prices().usd_per_store_hour
    assert there.store_usd_per_hour == pytest.approx(0.108 + 8 * 0.08 / 730 + 0.005), "a c5n.large, disk and address"
    named = FunctionsSettings(endpoint="aws", objects="s3://bucket", parameters="rediss://mine", usd_per_store_hour=0.5)
    assert FunctionsCloud(Settings(home=tmp_path, clouds=(named,))).offers()[0].store_usd_per_hour == 0.5


@pytest.mark.slow
def test_the_bill_has_the_parameter_store_and_the_requests_to_s3(tmp_path: Path, bucket: str) -> None:
    field = Field(tmp_path / "home", objects=bucket)
    task = field.task("sleep 1")
    try:
        status = field.run(task, nodes=2)
    finally:
        field.end_everything()
    assert status.state is TaskState.SUCCEEDED, (status, log_of(task))
    charges = {charge.what: charge for charge in status.charges}
    reads, writes = field.state(task.id).requests
    assert charges["requests to S3"].usd == pytest.approx(Prices().objects_usd(reads, writes))
    assert reads > 4
    assert writes > 4
    store = charges["parameter store"]
    assert store.usd == pytest.approx(store.seconds * Prices().usd_per_store_hour / 3600.0)
    assert store.seconds >= 1.0
