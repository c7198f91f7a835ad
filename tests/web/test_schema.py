"""Requests made up from the OpenAPI document find nothing that the server fails at."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings

from mlcd.core.run import JobState
from mlcd.web.app import create_app
from mlcd.web.site import Site
from web.people import open_test_site, set_up, sign_in_for_token

EXAMPLES = int(os.environ.get("MLCD_SCHEMA_EXAMPLES", "5"))  # of each operation, valid and invalid


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server with an admin and a job that rests, named so that made-up names may hit it."""
    made = open_test_site(tmp_path_factory.mktemp("schema") / "home")
    job_id = set_up(made).post("/jobs", {"job": {"name": "0", "run": "true", "work": {"samples": 1}}})["id"]
    made.client.store.change_job(job_id, state=JobState.SUCCEEDED)
    yield made
    made.client.sweep(end=True, others=True)
    made.close()


@pytest.mark.slow
def test_no_request_makes_the_server_fail(site: Site) -> None:
    schema = schemathesis.openapi.from_asgi("/api/v1/openapi.json", create_app(site))
    token = sign_in_for_token(site, "admin")
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) > 30
    for operation in operations:
        if not operation.path.endswith("/stream"):  # those do not end
            _try(operation, token)


def _try(operation: Any, token: str) -> None:
    @given(case=operation.as_strategy())
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def answered(case: schemathesis.Case) -> None:
        answer = case.call(headers={"Authorization": f"Bearer {token}"})
        assert answer.status_code < 500, f"{case.as_curl_command()}\n{answer.text}"

    answered()
