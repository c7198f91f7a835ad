"""What this computer sells, told from what it has."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from clouds.local.tools import Computer, one_core
from mlcd.clouds.local import open_cloud
from mlcd.clouds.local.hardware import Hardware, find_hardware, usable_memory_gib, usable_processors
from mlcd.clouds.local.offers import make_offers, sizes
from mlcd.clouds.local.settings import LocalSettings
from mlcd.clouds.tasks.gpus import Gpu, short_name
from mlcd.errors import NoCapacityError, UserError
from mlcd.settings import Settings

PRICES = LocalSettings(usd_per_core_hour=0.05, usd_per_gpu_hour=1.0)


def test_cores_are_sold_in_powers_of_two_and_all_together() -> None:
    offers = make_offers(Hardware(tuple(range(6)), memory_gib=12.0), PRICES, "2026-11-16")
    found = [(offer.name, offer.max_nodes, offer.instance.memory_gib) for offer in offers]
    assert found == [("local-1c", 6, 2.0), ("local-2c", 3, 4.0), ("local-4c", 1, 8.0), ("local-6c", 1, 12.0)]


def test_the_price_grows_with_cores_and_gpus() -> None:
    gpus = tuple(Gpu(str(number), "H200", 141.0) for number in range(2))
    offers = make_offers(Hardware(tuple(range(8)), memory_gib=64.0, gpus=gpus), PRICES, "2026-11-16")
    prices = {offer.name: offer.usd_per_hour for offer in offers}
    assert prices["local-4c"] == pytest.approx(0.20)
    assert prices["local-1xh200"] == pytest.approx(4 * 0.05 + 1.0)
    assert prices["local-2xh200"] == pytest.approx(8 * 0.05 + 2.0)


def test_each_kind_of_gpu_is_sold_with_its_share_of_cores() -> None:
    gpus = (Gpu("0", "T4", 15.0), Gpu("1", "H200", 141.0))
    offers = make_offers(Hardware(tuple(range(4)), memory_gib=8.0, gpus=gpus), PRICES, "2026-11-16")
    found = {
        offer.name: (offer.instance.vcpus, offer.instance.gpu_memory_gib, offer.max_nodes)
        for offer in offers
        if offer.instance.gpus
    }
    assert found == {"local-1xh200": (2, 141.0, 1), "local-1xt4": (2, 15.0, 1)}


def test_offers_say_who_set_the_price_and_when() -> None:
    (offer,) = make_offers(Hardware((0,), memory_gib=1.0), PRICES, "2026-11-16")
    assert offer.priced_at == "2026-11-16"
    assert "local.usd_per_core_hour" in offer.source


@pytest.mark.parametrize(("total", "expected"), [(1, [1]), (2, [1, 2]), (3, [1, 2, 3]), (8, [1, 2, 4, 8])])
def test_sizes_end_with_everything(total: int, expected: list[int]) -> None:
    assert sizes(total) == expected


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("NVIDIA H200", "H200"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA A100-SXM4-40GB", "A100"),
        ("NVIDIA A100-SXM4-80GB", "A100-80GB"),
        ("Tesla V100-SXM2-16GB", "V100"),
        ("Tesla T4", "T4"),
        ("NVIDIA GeForce RTX 4090", "RTX4090"),
        ("NVIDIA L40S", "L40S"),
    ],
)
def test_gpus_go_by_the_name_that_people_say(name: str, short: str) -> None:
    assert short_name(name) == short


def test_more_cores_than_there_are_are_shared_in_turn() -> None:
    processors = usable_processors()
    hardware = find_hardware(LocalSettings(cores=2 * len(processors) + 1))
    assert hardware.cores == (*processors, *processors, processors[0])


def test_a_container_sells_no_more_than_its_quota(tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text("150000 100000\n")
    (tmp_path / "memory.max").write_text(str(2**29))
    assert usable_processors(tmp_path) == (min(os.sched_getaffinity(0)),)
    assert usable_memory_gib(tmp_path) == 0.5


def test_a_container_without_a_quota_sells_everything(tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text("max 100000\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert len(usable_processors(tmp_path)) == len(os.sched_getaffinity(0))
    assert usable_memory_gib(tmp_path) > 0.5


def test_the_older_cgroups_are_understood(tmp_path: Path) -> None:
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text("100000")
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000")
    assert len(usable_processors(tmp_path)) == 1


def test_too_many_cores_are_refused_with_what_there_is(tmp_path: Path) -> None:
    computer = Computer(tmp_path / "home", cores=2)
    with pytest.raises(NoCapacityError, match=r"needs 3 cores.*has 2"):
        computer.cloud.launch(computer.task("true"), one_core(nodes=3), {})


def test_an_option_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no option 'trace'"):
        open_cloud(Settings(home=tmp_path), {"trace": "x.csv"})
