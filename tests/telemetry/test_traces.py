"""A job is one trace, whoever drives it, and nothing is sent without the variables."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from mlcd.core.records import TaskRecord
from mlcd.core.run import Attempt, AttemptEnd, JobState
from mlcd.core.task import Charge, TaskKind
from mlcd.errors import MissingExtraError
from mlcd.settings import Settings
from mlcd.store import Store, open_store
from mlcd.telemetry import traces
from stories import SUBMITTED, TRIALS, deployment, record

pytest.importorskip("opentelemetry.sdk", reason="OpenTelemetry is not installed")
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

JOB = "j-7f3a"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(f"sqlite:///{tmp_path / 'mlcd.db'}")
    opened.add_job(record(JobState.TRAINING))
    yield opened
    opened.close()


def task(store: Store, number: int, kind: TaskKind) -> TaskRecord:
    made = TaskRecord(f"{kind[0]}{number}", JOB, kind, number, deployment(2, 4), "local", SUBMITTED + number)
    store.add_task(made)
    return made


def live_through(store: Store) -> None:
    """A probe that failed, a training that ended, and the end of the job."""
    task(store, 5, TaskKind.PROBE)
    assert TRIALS[4].failure is not None
    store.finish_probe(JOB, TRIALS[4], TaskKind.PROBE, (Charge("x", 60.0, 0.5),), SUBMITTED + 60.0)
    task(store, 1, TaskKind.TRAINING)
    end = AttemptEnd.FINISHED
    store.put_attempt(JOB, Attempt("t1", 1, deployment(2, 4), SUBMITTED + 60.0, samples=10.0, end=end))
    store.end_task("t1", SUBMITTED + 100.0)
    store.change_job(JOB, state=JobState.SUCCEEDED, ended_at=SUBMITTED + 101.0)


def test_job_probe_and_attempt_are_spans_of_one_trace(store: Store) -> None:
    exporter = InMemorySpanExporter()
    seen = traces.Traces(store, JOB, exporter)
    live_through(store)
    seen.look()
    seen.look()
    seen.close()
    spans = {span.name: span for span in exporter.get_finished_spans()}
    assert sorted(spans) == ["attempt 1", "job char-rnn", "probe 5"]
    assert len({span.context.trace_id for span in spans.values()}) == 1
    job = spans["job char-rnn"]
    assert job.parent is None
    assert spans["probe 5"].parent is not None
    assert spans["probe 5"].parent.span_id == job.context.span_id
    assert (job.start_time, job.end_time) == (int(SUBMITTED * 1e9), int((SUBMITTED + 101.0) * 1e9))
    assert spans["probe 5"].status.status_code is StatusCode.ERROR
    assert spans["probe 5"].attributes is not None
    assert spans["probe 5"].attributes["mlcd.usd"] == 0.5
    assert spans["attempt 1"].status.status_code is StatusCode.UNSET


def test_a_controller_that_takes_over_goes_on_in_the_same_trace(store: Store) -> None:
    first, second = InMemorySpanExporter(), InMemorySpanExporter()
    before = traces.Traces(store, JOB, first)
    live_through(store)
    store.change_job(JOB, state=JobState.TRAINING, ended_at=None)
    before.look()
    before.close()
    after = traces.Traces(store, JOB, second)
    store.change_job(JOB, state=JobState.FAILED, ended_at=SUBMITTED + 200.0, error="broken\nlog")
    after.look()
    after.close()
    (job,) = second.get_finished_spans()
    assert job.context.trace_id == first.get_finished_spans()[0].context.trace_id
    assert job.status.description == "broken"


def test_nothing_is_opened_without_the_variables(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, settings = store.job(JOB), Settings(home=tmp_path)
    for name in traces.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert traces.open_traces(store, settings, made, {}) is None
    monkeypatch.setenv(traces.VARIABLES[0], "http://127.0.0.1:1")
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    assert traces.open_traces(store, settings, made, {}) is None


def test_a_missing_package_is_named(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(traces.VARIABLES[0], "http://127.0.0.1:1")
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(MissingExtraError) as caught:
        traces.open_traces(store, Settings(home=tmp_path), store.job(JOB), {})
    assert "mlcd[otel]" in caught.value.hint


def test_spans_arrive_at_a_collector(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[tuple[str, bytes]] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_words: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
    seen = traces.open_traces(store, Settings(home=tmp_path), store.job(JOB), {})
    assert seen is not None
    live_through(store)
    seen.look()
    seen.close()
    server.shutdown()
    server.server_close()
    assert [path for path, _ in heard] == ["/v1/traces"]
    assert b"job char-rnn" in heard[0][1]
    assert b"value-that-is-not-shown" not in heard[0][1]
