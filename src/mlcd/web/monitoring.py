"""For machines that watch: /health, and /metrics in Prometheus's text format."""

from __future__ import annotations

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, generate_latest
from pydantic import BaseModel
from starlette.responses import Response

from mlcd import __version__
from mlcd.core.run import JobState
from mlcd.web.auth import Admin, SiteOf
from mlcd.web.serialize import answer
from mlcd.web.site import Site

router = APIRouter(tags=["monitoring"])


class Health(BaseModel):
    """Whether it works."""

    status: str
    version: str


@router.get("/health", responses={200: {"model": Health}})
def health(site: SiteOf) -> Response:
    """Answers 200 if the server and its database work."""
    site.accounts.count()
    return answer({"status": "ok", "version": __version__})


@router.get("/metrics", responses={200: {"content": {"text/plain": {}}}})
def metrics(site: SiteOf, _actor: Admin) -> Response:
    """Jobs, money spent and foreseen, and readers, for Prometheus (with an admin's API token)."""
    return Response(generate_latest(_collect(site)), media_type=CONTENT_TYPE_LATEST)


def _collect(site: Site) -> CollectorRegistry:
    registry = CollectorRegistry()
    service = site.service
    jobs = Gauge("mlcd_jobs", "Jobs by state.", ["state"], registry=registry)
    for state in JobState:
        jobs.labels(state.value).set(0)
    for name, count in service.jobs_by_state().items():
        jobs.labels(name).set(count)
    real, replayed = service.spent_usd()
    _gauge(registry, "mlcd_spent_usd", "Dollars on all bills.", real)
    _gauge(registry, "mlcd_replayed_usd", "Dollars on the bills of replays, which nobody pays.", replayed)
    remaining = site.client.remaining_usd()
    _gauge(registry, "mlcd_forecast_usd", "Dollars that running jobs are expected to spend yet.", remaining)
    _gauge(registry, "mlcd_running_tasks", "Jobs that have something running.", service.running())
    _gauge(registry, "mlcd_stream_readers", "Readers of live streams of this process.", site.hub.readers)
    return registry


def _gauge(registry: CollectorRegistry, name: str, words: str, value: float) -> None:
    Gauge(name, words, registry=registry).set(value)
