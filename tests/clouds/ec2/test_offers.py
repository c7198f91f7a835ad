"""What EC2 sells: types, prices and quotas of the account, and what `mlcd check aws` finds."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from ec2_settings import ec2_settings
from emulated import EmulatedEc2
from mlcd.clouds.accounts import check_cloud
from mlcd.clouds.ec2 import open_cloud
from mlcd.clouds.ec2.account import Account
from mlcd.clouds.ec2.kinds import network_gbps, wanted
from mlcd.clouds.ec2.prices import spot_history
from mlcd.clouds.ec2.quotas import Quotas, family_of
from mlcd.clouds.ec2.settings import Ec2Settings
from mlcd.core.machines import Offer
from mlcd.errors import UserError

pytestmark = pytest.mark.slow


def named(offers: object) -> dict[tuple[str, bool], Offer]:
    return {(offer.instance.name, offer.spot): offer for offer in offers}  # type: ignore[attr-defined]


def test_offers_have_hardware_prices_and_the_quotas_room(ec2: EmulatedEc2, tmp_path: Path) -> None:
    offers = named(open_cloud(ec2_settings(tmp_path), {}).offers())
    plain, spot = offers["c5.large", False], offers["c5.large", True]
    assert (plain.instance.vcpus, plain.instance.memory_gib, plain.region) == (2, 4, "us-east-1")
    assert plain.usd_per_hour == pytest.approx(0.085)
    assert 0 < spot.usd_per_hour < plain.usd_per_hour
    assert plain.max_nodes == ec2.state.vcpu_quota // 2
    assert plain.source == "AWS price list"
    assert plain.priced_at > "2026"
    assert spot.source == "AWS spot price history"
    assert (plain.losses_per_hour, spot.losses_per_hour) == (0.0, 0.05)
    assert (plain.least_seconds, spot.least_seconds) == (60.0, 60.0)


def test_how_a_spot_price_went_is_known_by_zone(ec2: EmulatedEc2, tmp_path: Path) -> None:
    account, now = Account(ec2_settings(tmp_path).of(Ec2Settings)), time.time()
    history = spot_history(account, "us-east-1", "c5.large", tmp_path / "prices", now - 24 * 3600.0, now)
    zone, steps = next(iter(history.zones.items()))
    assert len(steps) >= 4  # the emulated price changes every six hours
    assert steps == tuple(sorted(steps))
    mean = history.mean(zone, now - 24 * 3600.0, now)
    assert mean is not None
    assert min(usd for _, usd in steps) <= mean <= max(usd for _, usd in steps)
    again = spot_history(account, "us-east-1", "c5.large", tmp_path / "prices", now - 3600.0, now + 60.0)
    assert again == history  # it is not asked for again at once


def test_what_runs_already_takes_from_the_quota(ec2: EmulatedEc2, tmp_path: Path) -> None:
    cloud = open_cloud(ec2_settings(tmp_path, types="c5.large"), {})
    before = named(cloud.offers())["c5.large", False].max_nodes
    ec2.boto("ec2").run_instances(ImageId=ec2.image, MinCount=2, MaxCount=2, InstanceType="c5.large")
    assert named(cloud.offers())["c5.large", False].max_nodes == before - 2


def test_a_price_list_of_ones_own_is_used_where_it_is_set(ec2: EmulatedEc2, tmp_path: Path) -> None:
    own = tmp_path / "prices.csv"
    own.write_text("instance_type,usd_per_hour\nc5.large,0.07\nm5.large,0\n")
    offers = named(open_cloud(ec2_settings(tmp_path, prices=str(own)), {}).offers())
    assert offers["c5.large", False].usd_per_hour == 0.07
    assert ("m5.large", False) not in offers


def test_prices_are_asked_for_once(ec2: EmulatedEc2, tmp_path: Path) -> None:
    settings = ec2_settings(tmp_path, types="c5.large")
    list(open_cloud(settings, {}).offers())
    file = tmp_path / "ec2" / "prices" / "on-demand-us-east-1.json"
    kept = json.loads(file.read_text())
    file.write_text(json.dumps({**kept, "on_demand": {"c5.large": 0.5}}))
    assert named(open_cloud(settings, {}).offers())["c5.large", False].usd_per_hour == 0.5


def test_wrong_credentials_say_what_to_do(ec2: EmulatedEc2, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAWRONG")
    with pytest.raises(UserError, match="does not accept the credentials"):
        list(open_cloud(ec2_settings(tmp_path), {}).offers())
    (only,) = check_cloud(ec2_settings(tmp_path), "aws")
    assert (only.what, only.ok) == ("credentials", False)
    assert "aws configure" in only.hint


def test_checking_the_account_finds_everything(ec2: EmulatedEc2, tmp_path: Path) -> None:
    found = {finding.what: finding for finding in check_cloud(ec2_settings(tmp_path), "aws")}
    assert all(finding.ok for finding in found.values()), [one for one in found.values() if not one.ok]
    assert "us-east-1: ec2:RunInstances" in found
    assert "vCPUs free" in found["us-east-1: quotas"].detail


def test_patterns_choose_types() -> None:
    names = ["c5.large", "c5.xlarge", "m5.large"]
    assert wanted(names, "c5.*") == ["c5.large", "c5.xlarge"]
    assert wanted(names, "m5.large, x9.new") == ["m5.large", "x9.new"]
    assert wanted(names, "") == names


def test_families_are_counted_as_aws_counts_them() -> None:
    assert [family_of(name) for name in ("c5.large", "g4dn.xlarge", "p5.48xlarge", "trn1.2xlarge")] == [
        "standard",
        "g",
        "p",
        "trn",
    ]
    quotas = Quotas({("standard", False): 7.0})
    assert quotas.most_nodes("c5.large", 2, spot=False) == 3
    assert quotas.most_nodes("g5.xlarge", 4, spot=False) == 16  # not to be read


def test_networks_are_counted_by_all_their_cards() -> None:
    assert network_gbps({"NetworkCards": [{"BaselineBandwidthInGbps": 100.0}] * 4}) == 400
    assert network_gbps({"NetworkPerformance": "4x 100 Gigabit"}) == 400
    assert network_gbps({"NetworkPerformance": "Up to 10 Gigabit"}) == 10
    assert network_gbps({"NetworkPerformance": "Moderate"}) == 0.5
