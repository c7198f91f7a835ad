"""Commands on the real client: a recorded trace replayed from job file to report."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.fake_client import Command
from mlcd.api import Client
from mlcd.settings import Settings

TRACE = """workload,instance,nodes,throughput,usd_per_node_hour,status
toy,slow,1,100,0.10,ok
toy,slow,2,190,0.10,ok
toy,slow,4,340,0.10,ok
toy,fast,1,400,0.90,ok
toy,fast,2,700,0.90,ok
toy,fast,4,,0.90,failed
"""
JOB = """name: toy
run: python train.py
num_nodes: 1..4
work: {samples: 2000000}
goal: cheapest
deadline: 6h
"""


@pytest.fixture
def job(tmp_path: Path) -> list[str]:
    """A job file and the options that replay a trace for it."""
    (tmp_path / "trace.csv").write_text(TRACE)
    (tmp_path / "job.yaml").write_text(JOB)
    return [str(tmp_path / "job.yaml"), "--trace", str(tmp_path / "trace.csv"), "--workload", "toy"]


@pytest.fixture
def client(tmp_path: Path) -> Client:
    return Client(Settings(home=tmp_path / "home"))


@pytest.mark.slow
def test_a_replayed_job_goes_from_file_to_report(mlcd: Command, client: Client, job: list[str], tmp_path: Path) -> None:
    planned = mlcd("run", *job, "--explain", client=client)
    assert planned.code == 101
    assert "Twice as fast" in planned.out
    (listed,) = mlcd("status", "--json", client=client).data
    name = listed["record"]["id"]
    assert listed["record"]["state"] == "planned"

    trained = mlcd("resume", name, "--yes", "--json", client=client)
    assert trained.code == 0
    assert trained.data["record"]["state"] == "succeeded"
    assert trained.data["spent"]["usd"] == pytest.approx(sum(item["usd"] for item in trained.data["bill"]))

    assert mlcd("status", name, "--exit-code", client=client).code == 0
    assert mlcd("logs", name, client=client).out
    assert mlcd("report", name, "-o", str(tmp_path / "r.html"), client=client).code == 0
    assert "Forecast beside fact" in (tmp_path / "r.html").read_text()


@pytest.mark.slow
def test_a_goal_that_nothing_reaches_exits_with_106(mlcd: Command, client: Client, job: list[str]) -> None:
    done = mlcd("run", *job, "--yes", "--deadline", "20m", client=client)
    assert done.code == 106
    assert "failed" in done.out


def test_a_broken_job_file_is_a_usage_error_that_names_the_line(mlcd: Command, client: Client, job: list[str]) -> None:
    Path(job[0]).write_text(JOB.replace("deadline", "deadlin"))
    done = mlcd("check", job[0], client=client)
    assert done.code == 2
    assert "6" in done.err
    assert "deadline" in done.err
