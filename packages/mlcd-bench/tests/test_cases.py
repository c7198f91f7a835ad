"""Which searches a trace holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlcd.catalog.traces import Recording, Workload
from mlcd.errors import UserError
from mlcd_bench.cases import cases_of, read_cases


def recording(nodes: int, batch: int | None, samples: float | None = 100.0, ok: bool = True) -> Recording:
    return Recording("w", "m", nodes, batch, 10.0 * nodes if ok else None, samples, 1.0, ok)


def test_without_batch_sizes_there_is_one_case() -> None:
    (case,) = cases_of(Workload("w", "t", (recording(1, None), recording(2, None, ok=False))))
    assert (case.batch, len(case.space), len(case.speeds)) == (None, 2, 1)


def test_batch_sizes_with_twenty_deployments_are_searched_alone_and_all_together() -> None:
    rows = [recording(n, 32, 100.0) for n in range(1, 21)] + [recording(n, 64, 150.0) for n in range(1, 20)]
    cases = cases_of(Workload("w", "t", tuple(rows)))
    assert [(case.batch, len(case.space)) for case in cases] == [(32, 20), ("all", 39)]
    assert dict(cases[1].samples) == {32: 100.0, 64: 150.0}


def test_failed_rows_need_not_say_their_samples_but_working_ones_must() -> None:
    known = Workload("w", "t", (recording(1, 32), recording(1, 64, None, ok=False)))
    assert dict(cases_of(known)[0].samples) == {32: 100.0}
    unknown = Workload("w", "t", (recording(1, 32), recording(1, 64, None)))
    assert cases_of(unknown)[0].samples == ()


def test_workloads_where_nothing_works_are_left_out(tmp_path: Path) -> None:
    header = "workload,instance,nodes,throughput,usd_per_node_hour,status\n"
    (tmp_path / "t.csv").write_text(header + "dead,m,1,,1,failed\nalive,m,1,5,1,ok\n")
    assert [case.workload for case in read_cases([str(tmp_path / "t.csv")])] == ["alive"]
    (tmp_path / "t.csv").write_text(header + "dead,m,1,,1,failed\n")
    with pytest.raises(UserError, match="deployment that works"):
        read_cases([str(tmp_path)])


def test_a_synthetic_trace_needs_a_seed() -> None:
    with pytest.raises(UserError, match="names no synthetic trace"):
        read_cases(["synthetic:"])


def test_the_shared_traces_give_the_cases_of_the_protocol(shared_traces: Path) -> None:
    cases = read_cases([str(shared_traces / "gpu_training.csv")])
    bert = [case.batch for case in cases if case.workload == "bert"]
    assert bert == [24, 48, 96, 192, 384, "all"]  # batch 12 has 13 deployments
