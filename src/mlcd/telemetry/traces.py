"""A job as an OpenTelemetry trace: a span for the job, below it one for each probe and each attempt.

Switched on by the standard variables: OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, and
whatever else the exporter reads (headers, OTEL_SERVICE_NAME, …). Ids are made from the job's and the tasks' own, so
that all controllers of a job write into one trace.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mlcd.core.records import JobRecord, TaskRecord
from mlcd.core.run import AttemptEnd, JobState
from mlcd.core.task import TaskKind
from mlcd.errors import MissingExtraError
from mlcd.settings import Settings
from mlcd.store import Store

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

VARIABLES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_FLUSH_MILLIS = 10_000


def open_traces(store: Store, _settings: Settings, record: JobRecord, _secrets: Mapping[str, str]) -> Traces | None:
    """The traces of a job; None: the variables are not set, or OTEL_SDK_DISABLED is."""
    off = os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    if off or not any(os.environ.get(name) for name in VARIABLES):
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            "OTEL_EXPORTER_OTLP_ENDPOINT is set, but OpenTelemetry is not installed.",
            "pip install 'mlcd[otel]'",
        ) from error
    return Traces(store, record.id, OTLPSpanExporter())


class Traces:
    """An observer that sends each span when its task or job has ended."""

    def __init__(self, store: Store, job_id: str, exporter: SpanExporter) -> None:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        self._store = store
        self._job_id = job_id
        self._ids = _ids()
        name = os.environ.get("OTEL_SERVICE_NAME", "mlcd")
        self._provider = TracerProvider(
            id_generator=self._ids, resource=Resource.create({"service.name": name}), shutdown_on_exit=False
        )
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._sent = {task.id for task in store.tasks(job_id) if task.ended_at is not None}  # by earlier controllers

    def look(self) -> None:
        """Send what has ended."""
        record = self._store.job(self._job_id)
        for task in self._store.tasks(self._job_id):
            if task.ended_at is not None and task.id not in self._sent:
                self._sent.add(task.id)
                self._send_task(task, task.ended_at)
        mark = f"{record.state}/{record.ended_at}"
        if record.ended_at is not None and not record.state.active and mark not in self._sent:
            self._sent.add(mark)
            self._send_job(record, record.ended_at)

    def close(self) -> None:
        """Send what is still queued."""
        self._provider.force_flush(_FLUSH_MILLIS)
        self._provider.shutdown()

    def _send_job(self, record: JobRecord, ended_at: float) -> None:
        facts = {
            "mlcd.job.id": record.id,
            "mlcd.job.name": record.job.name,
            "mlcd.job.state": record.state.value,
            "mlcd.cloud": record.cloud,
            "mlcd.strategy": record.job.search.strategy,
            "mlcd.usd": self._store.spent(record.id),
        }
        begin = record.submitted_at
        self._send(f"job {record.job.name}", record.id, begin, ended_at, facts, _trouble_of(record), top=True)

    def _send_task(self, task: TaskRecord, ended_at: float) -> None:
        facts: dict[str, Any] = {
            "mlcd.task.id": task.id,
            "mlcd.deployment": task.deployment.key,
            "mlcd.nodes": task.deployment.nodes,
            "mlcd.usd": sum(item.usd for item in self._store.bill(task.job_id) if item.task_id == task.id),
        }
        found, trouble = self._outcome(task)
        name = "probe" if task.kind is TaskKind.PROBE else "attempt"
        self._send(f"{name} {task.number}", task.id, task.intended_at, ended_at, {**facts, **found}, trouble)

    def _outcome(self, task: TaskRecord) -> tuple[dict[str, Any], str]:
        """The result of the task, and its error."""
        for trial in self._store.trials(task.job_id):
            if trial.task_id == task.id and trial.measurement is not None:
                return {"mlcd.samples_per_second": trial.measurement.samples_per_second}, ""
            if trial.task_id == task.id and trial.failure is not None:
                return {}, trial.failure.reason.value
        for attempt in self._store.attempts(task.job_id):
            if attempt.task_id == task.id and attempt.end is not None:
                bad = attempt.end in (AttemptEnd.FAILED, AttemptEnd.LOST)
                facts = {"mlcd.samples": attempt.samples, "mlcd.end": attempt.end.value}
                return facts, attempt.end.value if bad else ""
        return {}, ""

    def _send(
        self,
        name: str,
        thing: str,
        begin: float,
        end: float,
        facts: dict[str, Any],
        trouble: str,
        top: bool = False,
    ) -> None:
        from opentelemetry import trace

        self._ids.trace_id, self._ids.span_id = number(self._job_id, 16), number(thing, 8)
        parent = trace.SpanContext(
            self._ids.trace_id, number(self._job_id, 8), is_remote=True, trace_flags=trace.TraceFlags(1)
        )
        above = None if top else trace.set_span_in_context(trace.NonRecordingSpan(parent))
        span = self._provider.get_tracer("mlcd").start_span(
            name, context=above, attributes=facts, start_time=int(begin * 1e9)
        )
        if trouble:
            span.set_status(trace.Status(trace.StatusCode.ERROR, trouble))
        span.end(int(max(begin, end) * 1e9))


def number(words: str, size: int) -> int:
    """An id of so many bytes, the same for the same words and never zero."""
    return int.from_bytes(hashlib.sha256(words.encode()).digest()[:size]) | 1


def _ids() -> Any:
    """An id generator that returns the ids set on it."""
    from opentelemetry.sdk.trace.id_generator import IdGenerator

    class FixedIds(IdGenerator):
        trace_id = 0
        span_id = 0

        def generate_trace_id(self) -> int:
            return self.trace_id

        def generate_span_id(self) -> int:
            return self.span_id

    return FixedIds()


def _trouble_of(record: JobRecord) -> str:
    return "" if record.state is not JobState.FAILED else (record.error.splitlines() or ["failed"])[0]
