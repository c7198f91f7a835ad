"""Secrets are known by name only."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from mlcd.core.progress import MetricPoint, Point
from mlcd.core.run import Attempt
from mlcd.core.task import TaskKind
from mlcd.store import open_store
from store.store_samples import CHARGES, DEPLOYMENT, controller, job, task, trial

SECRET = "tok-5f2c9e81d7"


def test_no_secret_value_is_in_the_database_files(
    new_sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_TOKEN", SECRET)
    program = replace(job().job, secret_names=("API_TOKEN",), run="python train.py --token $API_TOKEN")
    with closing(open_store(new_sqlite_url)) as store:
        store.add_job(job(job=program))
        store.take_control("digits-1a2b", controller(), lambda _: False)
        store.add_task(task(1), token="mine")
        store.finish_probe("digits-1a2b", trial(1), TaskKind.PROBE, CHARGES, 500.0)
        store.put_attempt("digits-1a2b", Attempt("t", 1, DEPLOYMENT, 1.0))
        store.add_points("digits-1a2b", task(1).id, [Point(1, 1, 1)], [MetricPoint(1, 1, "loss", 1)])
        store.add_event("digits-1a2b", 1.0, "state", "done")
        written = b"".join(path.read_bytes() for path in (tmp_path / "home").iterdir())
    assert b"API_TOKEN" in written
    assert SECRET.encode() not in written
