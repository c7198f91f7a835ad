"""Price lists: ours, SkyPilot's, and mlcd's own list of EC2 types."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlcd.catalog.ec2_types import listed_types
from mlcd.catalog.price_list import age_days, fresh, read_price_list
from mlcd.errors import UserError

NOW = 1_790_000_000.0  # in September 2026


def test_a_catalog_of_skypilots_is_read(tmp_path: Path) -> None:
    file = tmp_path / "azure" / "vms.csv"
    file.parent.mkdir()
    file.write_text(
        "InstanceType,vCPUs,MemoryGiB,AcceleratorName,AcceleratorCount,GpuInfo,Price,SpotPrice,Region,AvailabilityZone\n"
        "ND96,96,900,A100,8.0,,27.2,8.9,eastus,1\n"
        "ND96,96,900,A100,8.0,,27.2,7.9,eastus,2\n"
        "Free,1,1,,,,0,0,eastus,1\n"
    )
    plain, spot = read_price_list(file)
    assert (plain.cloud, plain.region, plain.instance.gpus, plain.instance.gpu_model) == (
        "azure",
        "eastus",
        8,
        "A100",
    )
    assert (plain.usd_per_hour, spot.usd_per_hour, spot.spot) == (27.2, 7.9, True)


def test_old_prices_are_left_out(tmp_path: Path) -> None:
    file = tmp_path / "own.csv"
    file.write_text("cloud,instance_type,usd_per_hour,priced_at\nlambda,a,1.1,2026-09-01\nlambda,b,1.2,2020-01-01\n")
    offers = read_price_list(file)
    assert [offer.instance.name for offer in fresh(offers, 365.0, NOW)] == ["a"]
    assert age_days(offers[0], NOW) == pytest.approx(20.1, abs=1.0)


def test_what_is_no_price_list_is_refused_by_line(tmp_path: Path) -> None:
    file = tmp_path / "x.csv"
    file.write_text("a,b\n1,2\n")
    with pytest.raises(UserError, match="no price list"):
        read_price_list(file)
    file.write_text("instance_type,usd_per_hour\nc5.large,0.1\nm5.large,cheap\n")
    with pytest.raises(UserError, match="line 3"):
        read_price_list(file)


def test_our_own_list_is_whole() -> None:
    types = listed_types()
    assert len(types) >= 60
    assert all(offer.usd_per_hour > 0 and offer.instance.vcpus > 0 and offer.priced_at for offer in types)
    families = {offer.instance.name.split(".")[0] for offer in types}
    assert families >= {
        "c4",
        "c5",
        "c5n",
        "c6i",
        "c7i",
        "m5",
        "m6i",
        "t3",
        "g4dn",
        "g5",
        "g6",
        "p2",
        "p3",
        "p4d",
        "p5",
    }
    by_name = {offer.instance.name: offer for offer in types}
    assert by_name["p5.48xlarge"].instance.gpus == 8
    assert by_name["c5.4xlarge"].usd_per_hour == 0.68
