"""Traces that nobody has looked at."""

from __future__ import annotations

from mlcd_bench.cases import cases_of
from mlcd_bench.synthetic import WORKLOADS, synthetic_workloads


def test_the_same_seed_gives_the_same_trace() -> None:
    assert synthetic_workloads(5) == synthetic_workloads(5)
    assert synthetic_workloads(5) != synthetic_workloads(6)


def test_a_trace_has_sixty_types_on_fifty_nodes_and_small_spaces_too() -> None:
    sizes = [len(workload.deployments) for workload in synthetic_workloads(1)]
    assert len(sizes) == WORKLOADS
    assert max(sizes) >= 3000
    assert min(sizes) <= 250


def test_prices_lie_hundreds_of_times_apart() -> None:
    prices = [offer.usd_per_hour for offer in synthetic_workloads(1)[0].offers]
    assert max(prices) / min(prices) > 300


def test_some_deployments_fail_but_never_all() -> None:
    workloads = [workload for seed in range(4) for workload in synthetic_workloads(seed)]
    failed = sum(not row.ok for workload in workloads for row in workload.recordings)
    assert failed > 100
    assert all(any(row.ok for row in workload.recordings) for workload in workloads)


def test_scaling_out_pays_off_at_first_and_not_for_ever() -> None:
    """At least one workload has its fastest deployment inside the range of nodes."""
    inside = 0
    for seed in range(3):
        for workload in synthetic_workloads(seed):
            case = cases_of(workload)[0]
            fastest = max(case.speeds, key=case.speeds.__getitem__)
            inside += 1 < fastest.nodes < fastest.offer.max_nodes
    assert inside >= 5
