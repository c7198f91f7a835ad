"""Recorded deployments are read as they were written, and what cannot be is named."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from mlcd.catalog.traces import Workload, find_workload, read_workloads
from mlcd.core.machines import Deployment
from mlcd.errors import NotFoundError, UserError

HEADER = (
    "workload,instance,nodes,batch,throughput,samples,usd_per_node_hour,status,gpus_per_node,vcpus_per_node,origin\n"
)
ROWS = """\
bert,a100x1,1,16,100,5000,2.5,ok,1,,measured
bert,a100x1,1,16,110,5000,2.5,ok,1,,measured
bert,a100x1,4,16,300,,2.5,ok,1,,measured
bert,a100x1,4,32,,,2.5,failed,1,,measured
bert,cpu,1,16,5,5000,0.1,ok,,8,measured
lm,cpu,2,,7,,0.1,ok,,8,measured
"""


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    file = tmp_path / "tiny.csv"
    file.write_text(HEADER + ROWS)
    return file


def deployment(workload: Workload, key: str) -> Deployment:
    return next(each for each in workload.deployments if each.key == key)


def test_memory_that_is_paid_for_is_part_of_the_price(tmp_path: Path) -> None:
    file = tmp_path / "memory.csv"
    rows = "lm,cpu,2,64,7,,0.1,ok,0,8,measured,4,0.05\nlm,cpu,2,256,9,,0.1,ok,0,8,measured,12,0.05\n"
    file.write_text(HEADER.rstrip() + ",gib_per_node,usd_per_gib_hour\n" + rows)
    prices = {each.batch_size: each.usd_per_hour for each in find_workload(file).deployments}
    assert prices == pytest.approx({64: 2 * (0.1 + 4 * 0.05), 256: 2 * (0.1 + 12 * 0.05)})


def test_repeated_measurements_are_one_deployment_with_their_mean(trace: Path) -> None:
    bert = find_workload(trace, "bert")
    one = deployment(bert, "1xa100x1/b16")
    assert len(bert.deployments) == 4
    assert len(bert.deployments[one]) == 2
    assert bert.throughput(one) == 105


def test_a_failed_deployment_has_no_throughput(trace: Path) -> None:
    bert = find_workload(trace, "bert")
    failed = deployment(bert, "4xa100x1/b32")
    assert bert.throughput(failed) is None
    assert not bert.deployments[failed][0].ok


def test_the_offer_knows_price_hardware_and_the_most_nodes_seen(trace: Path) -> None:
    gpu, cpu = find_workload(trace, "bert").offers
    assert (gpu.cloud, gpu.instance.name, gpu.instance.gpus) == ("replay", "a100x1", 1)
    assert (gpu.usd_per_hour, gpu.max_nodes) == (2.5, 4)
    assert (cpu.instance.vcpus, cpu.max_nodes) == (8, 1)


def test_samples_come_from_another_row_of_the_same_batch_size(trace: Path) -> None:
    bert = find_workload(trace, "bert")
    assert bert.samples(deployment(bert, "4xa100x1/b16")) == 5000
    assert bert.samples(deployment(bert, "4xa100x1/b32")) is None


def test_batches_are_listed_and_empty_where_there_are_none(trace: Path) -> None:
    assert find_workload(trace, "bert").batches == (16, 32)
    assert find_workload(trace, "lm").batches == ()


def test_one_instance_at_two_prices_is_two_offers_with_different_keys(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text(HEADER + "w,a,1,,10,,1.0,ok,,,\nw,a,1,,10,,0.3,ok,,,\n")
    workload = find_workload(file, "w")
    assert sorted(offer.usd_per_hour for offer in workload.offers) == [0.3, 1.0]
    assert len({each.key for each in workload.deployments}) == 2


def test_only_the_required_columns_in_any_order_are_enough(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_bytes(
        "\ufeffstatus,nodes, workload,instance,throughput,usd_per_node_hour,note\r\n"
        "OK,2.0,w,a,3.5,0.1,hello\r\n\r\nfailed,3,w,a,,0.1\r\n".encode()
    )
    first, second = find_workload(file).recordings
    assert (first.nodes, first.throughput, first.batch, first.origin) == (2, 3.5, None, "")
    assert (second.ok, second.throughput) == (False, None)


def test_a_folder_gives_all_its_traces_and_skips_other_tables(trace: Path) -> None:
    (trace.parent / "other.csv").write_text("workload,epoch\nbert,1\n")
    (trace.parent / "empty.csv").write_text("")
    (trace.parent / "more.csv").write_text(HEADER + "vgg,a,1,,1,,1,ok,,,\n")
    assert [(each.trace, each.name) for each in read_workloads(trace.parent)] == [
        ("more", "vgg"),
        ("tiny", "bert"),
        ("tiny", "lm"),
    ]


def test_a_workload_in_two_files_is_named_with_its_file(trace: Path) -> None:
    (trace.parent / "more.csv").write_text(HEADER + "bert,a,1,,1,,1,ok,,,\n")
    with pytest.raises(UserError, match="'more/bert' or 'tiny/bert'"):
        find_workload(trace.parent, "bert")
    assert find_workload(trace.parent, "more/bert").trace == "more"


def test_an_unknown_workload_names_the_nearest(trace: Path) -> None:
    with pytest.raises(NotFoundError, match="Did you mean 'bert'"):
        find_workload(trace, "bret")


@pytest.mark.parametrize(
    ("row", "column", "problem"),
    [
        ("w,a,1,,x,,1,ok,,,", "throughput", "'x' is not a number"),
        ("w,a,1,,,,1,ok,,,", "throughput", "blank"),
        ("w,a,1,,nan,,1,ok,,,", "throughput", "greater than zero"),
        ("w,a,1,,inf,,1,ok,,,", "throughput", "greater than zero"),
        ("w,a,0,,1,,1,ok,,,", "nodes", "greater than zero"),
        ("w,a,1.5,,1,,1,ok,,,", "nodes", "whole number"),
        ("w,a,1,-4,1,,1,ok,,,", "batch", "greater than zero"),
        ("w,a,1,,1,,-1,ok,,,", "usd_per_node_hour", "greater than zero"),
        ("w,a,1,,1,,1,fine,,,", "status", "'ok' or 'failed'"),
        (",a,1,,1,,1,ok,,,", "workload", "blank"),
        ("w,a,1", "status", "blank"),
    ],
)
def test_a_bad_cell_is_named_by_file_line_and_column(tmp_path: Path, row: str, column: str, problem: str) -> None:
    file = tmp_path / "bad.csv"
    file.write_text(f"{HEADER}w,a,1,,1,,1,ok,,,\n{row}\n")
    with pytest.raises(UserError) as caught:
        read_workloads(file)
    assert f"bad.csv, line 3, column '{column}'" in caught.value.message
    assert problem in caught.value.message


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"a,b\n1,2\n", "no column 'workload'"),
        (b"", "no column 'workload'"),
        (HEADER.encode(), "no rows"),
        (HEADER.encode() + b"w,a,1,,1,,1,ok,,,,,,\n", "line 2: 14 cells under 11 columns"),
        (b"\xff\xfe\x00\x80", "cannot be read"),
    ],
)
def test_what_is_not_a_trace_is_refused(tmp_path: Path, content: bytes, problem: str) -> None:
    file = tmp_path / "bad.csv"
    file.write_bytes(content)
    with pytest.raises(UserError, match=problem):
        read_workloads(file)


def test_a_missing_file_or_a_folder_without_traces_is_said(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no trace"):
        read_workloads(tmp_path / "gone.csv")
    with pytest.raises(UserError, match="No CSV file"):
        read_workloads(tmp_path)


def test_every_shared_trace_is_read_with_distinct_deployments(shared_traces: Path) -> None:
    workloads = read_workloads(shared_traces)
    rows = {"analytics": 621, "gpu_throughput": 240, "gpu_training": 790, "ps_training": 768}
    read: Counter[str] = Counter()
    for workload in workloads:
        read[workload.trace] += len(workload.recordings)
        assert len({each.key for each in workload.deployments}) == len(workload.deployments)
    # The folder may hold more traces than these, which the suite counts.
    assert {trace: read[trace] for trace in rows} == rows
