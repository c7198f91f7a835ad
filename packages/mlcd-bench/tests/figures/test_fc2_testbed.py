"""The testbed of the FC² paper: one parameter server and workers that fill its network."""

from __future__ import annotations

import pytest

from mlcd_bench.figures.fc2.figures import CPU_SETTINGS, FC2
from mlcd_bench.figures.fc2.testbed import SERVERS, WORKERS, cluster, throughput
from mlcd_bench.protocol import Scenario, set_problem
from mlcd_bench.strategies import parse_strategy


def test_there_is_a_preset_for_every_figure_of_an_experiment() -> None:
    """Figures 1 to 5 are drawings of how the system works."""
    figures = [f"fc2-fig{number}" for number in range(6, 21)]
    assert set(FC2) == {*figures, "fc2-tables", "fc2-footnote10", "fc2-budgets"}


@pytest.mark.parametrize("name", FC2)
def test_every_strategy_of_a_preset_exists(name: str) -> None:
    preset = FC2[name]()
    assert preset.name == name
    for contest in preset.contests:
        for text in contest.strategies:
            parse_strategy(text)


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("workers", [1, 6])
def test_a_cluster_costs_its_workers_and_its_server(server: str, workers: int) -> None:
    expected = workers * WORKERS["p2.xlarge"].usd_per_hour + SERVERS[server].usd_per_hour
    assert cluster("p2.xlarge", server, workers).usd_per_hour == pytest.approx(expected)
    assert cluster("p2.xlarge", server, workers).workers == workers


def test_workers_add_up_until_the_servers_network_is_full() -> None:
    speeds = [throughput("p2.xlarge", "m4.large", 128, workers) for workers in range(1, 7)]
    assert speeds[1] > 1.9 * speeds[0]
    assert speeds[3] < speeds[2]
    faster = [throughput("p2.xlarge", "m4.10xlarge", 128, workers) for workers in range(1, 7)]
    assert faster[5] > 5.9 * faster[0]


def test_a_contest_is_a_training_of_a_day_on_one_server_and_up_to_six_workers() -> None:
    contest = CPU_SETTINGS[0].contest
    assert max(each.workers for each in contest.case.space) == 6
    assert {each.servers for each in contest.case.space} == {1}
    problem = set_problem(contest.case, Scenario.FASTEST, contest.hours, 1.0)
    assert problem is not None
    assert problem.trainings[problem.oracle].seconds == pytest.approx(24 * 3600)
