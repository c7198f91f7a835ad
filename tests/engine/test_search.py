"""What the search refuses to rent, whatever its strategy wants."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlcd.api import Client
from mlcd.core.machines import Deployment
from mlcd.core.run import JobState
from mlcd.core.study import Stop, Study
from mlcd.search.baselines import ExhaustiveSearch

# A training of a million samples takes 2,500 s on the small machine; a probe takes 600 s.
TRACE = """\
workload,instance,nodes,throughput,usd_per_node_hour,status
net,small,1,400,1.0,ok
net,large,1,800,9.0,ok
"""


def blind(search: ExhaustiveSearch, study: Study) -> Deployment | Stop:
    """The next one untried, without a look at the limits."""
    untried = [each for each in study.space if each not in study.tried]
    return untried[0] if untried else Stop(study.trials[0].deployment, "everything was tried")


@pytest.mark.parametrize(("deadline_seconds", "probes"), [(3400, 1), (4000, 2)])
def test_a_probe_that_would_be_cut_off_is_not_rented_while_a_deployment_is_in_hand(
    client: Client,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    deadline_seconds: int,
    probes: int,
) -> None:
    monkeypatch.setattr(ExhaustiveSearch, "suggest", blind)
    (tmp_path / "trace.csv").write_text(TRACE)
    limits = {"goal": "cheapest", "deadline": f"{deadline_seconds}s", "search": "exhaustive"}
    job = {"name": "net", "run": "true", "work": {"samples": 1e6}, **limits}
    options = {"trace": str(tmp_path / "trace.csv"), "workload": "net"}
    view = client.drive(client.submit(client.load(job), cloud="replay", cloud_options=options))
    assert view.record.state is JobState.PLANNED, view.record.error
    assert len(view.trials) == probes
    assert view.record.plan is not None
    assert view.record.plan.deployment.key == "1xsmall"
