"""Hosts get the same share of everything that makes a training fast or slow."""

from __future__ import annotations

from typing import Any

import pytest

from mlcd_emulate.scale import LEAST_MEMORY_MIB, host_size, vcpus_that_fit


def facts(vcpus: int = 2, memory_mib: int = 4096, baseline: float | None = 0.75, said: str = "Up to 10 Gigabit") -> Any:
    cards = [] if baseline is None else [{"BaselineBandwidthInGbps": baseline}]
    return {
        "VCpuInfo": {"DefaultVCpus": vcpus},
        "MemoryInfo": {"SizeInMiB": memory_mib},
        "NetworkInfo": {"NetworkPerformance": said, "NetworkCards": cards},
    }


def test_computing_and_talking_shrink_by_the_same_factor() -> None:
    size = host_size(facts(vcpus=4, baseline=1.25), disk_gib=8, vcpus_per_core=20)
    assert (size.cores, size.network_mbit) == (0.2, 62.5)
    half = host_size(facts(vcpus=4, baseline=1.25), disk_gib=8, vcpus_per_core=40)
    assert size.cores / size.network_mbit == half.cores / half.network_mbit


def test_memory_leaves_room_for_a_framework() -> None:
    assert host_size(facts(memory_mib=4096), 8).memory_mib == 1024
    assert host_size(facts(memory_mib=512), 8).memory_mib == LEAST_MEMORY_MIB


def test_a_disk_is_neither_tiny_nor_all_of_memory() -> None:
    assert [host_size(facts(), gib).disk_mib for gib in (1, 8, 30, 2000)] == [256, 512, 1920, 4096]


@pytest.mark.parametrize(("said", "gbit"), [("10 Gigabit", 10), ("Moderate", 0.5), ("Unheard of", 0.5)])
def test_words_for_a_network_stand_in_where_no_figure_is_told(said: str, gbit: float) -> None:
    assert host_size(facts(baseline=None, said=said), 8).network_mbit == gbit * 1000 / 20


def test_the_list_of_types_says_what_a_network_carries() -> None:
    listed = {**facts(baseline=None, said="4x 100 Gigabit"), "InstanceType": "p4d.24xlarge"}
    assert host_size(listed, 8).network_mbit == 400 * 1000 / 20


def test_sixteen_small_hosts_fit_on_two_cores() -> None:
    assert vcpus_that_fit(2) >= 16 * 2
    assert vcpus_that_fit(2) / 20 < 2
