"""What a node uses, from what was seen of it."""

from __future__ import annotations

import pytest

from mlcd.clouds.tasks.gpus import GpuUse
from mlcd.clouds.tasks.meter import WINDOW_SECONDS, NodeMeter
from mlcd.clouds.tasks.processes import ProcessInfo
from mlcd.core.progress import NodeUsage, Usage


def busy(cpu_seconds: float, memory_gib: float = 1.0) -> list[ProcessInfo]:
    """A program that has used that much."""
    return [ProcessInfo(1, 0, 1, cpu_seconds, int(memory_gib * 2**30))]


def test_means_are_of_the_last_half_minute_and_peaks_of_all_time() -> None:
    meter = NodeMeter(cores=2.0)
    meter.sample(0.0, busy(0.0, memory_gib=3.0), [GpuUse("0", 1.0, 8.0)], 0.0)
    meter.sample(10.0, busy(20.0), [GpuUse("0", 0.0, 2.0)], 1e7)
    assert (meter.usage.cpu_share, meter.usage.gpu_share, meter.usage.network_mbps) == (1.0, 0.5, 8.0)
    later = 10.0 + WINDOW_SECONDS + 1.0
    meter.sample(later, busy(20.0), [GpuUse("0", 0.0, 2.0)], 1e7)
    meter.sample(later + 10.0, busy(25.0), [GpuUse("0", 0.0, 2.0)], 1e7)
    assert (meter.usage.cpu_share, meter.usage.gpu_share, meter.usage.network_mbps) == (0.25, 0.0, 0.0)
    assert (meter.usage.memory_gib, meter.usage.peak_memory_gib) == (1.0, 3.0)
    assert (meter.usage.gpu_memory_gib, meter.usage.peak_gpu_memory_gib) == (2.0, 8.0)


def test_a_program_counts_from_its_start_however_much_the_one_before_it_had_used() -> None:
    meter = NodeMeter(cores=1.0)
    meter.sample(0.0, busy(500.0))
    meter.sample(1.0, [])  # setup has ended
    meter.sample(2.0, busy(0.0))
    meter.sample(4.0, busy(2.0))
    assert meter.usage.cpu_share == 0.5


def test_what_nobody_knows_is_not_told_as_nothing() -> None:
    assert NodeMeter(1.0).sample(0.0, []) == NodeUsage()
    assert NodeUsage().network_mbps is None


def test_nodes_together_have_the_means_of_those_that_were_heard_of() -> None:
    nodes = [NodeUsage(0.5, 1.0, 0.5, 2.0, 8.0, 1.0, 3.0), None, NodeUsage(1.0, 2.0, peak_memory_gib=4.0)]
    together = Usage.of(nodes)
    assert together == Usage(
        0.75,
        4.0,
        0.25,
        3.0,
        4.0,
        nodes=(nodes[0] or NodeUsage(), NodeUsage(), NodeUsage(1.0, 2.0, peak_memory_gib=4.0)),
    )
    assert Usage.of([None, None]) == Usage()


@pytest.mark.parametrize("cores", [0.5, 4.0])
def test_no_node_uses_more_than_it_has(cores: float) -> None:
    meter = NodeMeter(cores)
    meter.sample(0.0, busy(0.0))
    assert meter.sample(1.0, busy(100.0)).cpu_share == 1.0
