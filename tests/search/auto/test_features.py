"""What is read off an offer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mlcd.core.goal import Aim, Goal
from mlcd.core.machines import Deployment, InstanceType, Offer
from mlcd.core.study import Study
from mlcd.search.auto.costs import costs_of
from mlcd.search.auto.features import describe, family


def offer(name: str, usd: float = 1.0, gpu_model: str = "", spot: bool = False) -> Offer:
    return Offer("test", InstanceType(name, gpu_model=gpu_model), usd, 8, spot=spot)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("c4.2xlarge", "c4"),
        ("c4.large", "c4"),
        ("a100x8", "a100"),
        ("rtx2080tix4", "rtx2080ti"),
        ("n1-standard-8", "n1 standard"),
        ("a2-highgpu-4g", "a2 highgpu"),
        ("Standard_NC24s_v3", "standard nc s v3"),
        ("gpu_8x_a100", "gpu a100"),
        ("k80", "k80"),
    ],
)
def test_sizes_of_one_family_have_one_name(name: str, expected: str) -> None:
    assert family(offer(name)) == expected


def test_the_accelerator_names_the_family_where_it_is_known() -> None:
    assert family(offer("p3.2xlarge", gpu_model="V100")) == family(offer("p3.8xlarge", gpu_model="V100"))


def test_a_price_is_the_whole_price_and_its_hint_at_speed_is_the_machines_own() -> None:
    plain, with_disk = offer("c4.large"), replace(offer("c4.large"), extras_usd_per_hour=0.5)
    space = (Deployment(plain, 2), Deployment(with_disk, 2))
    features = describe(space)
    assert features.log_price[0] == features.log_price[1]
    costs = costs_of(Study(Goal(Aim.CHEAPEST), space, 100.0), features)
    assert costs.usd.tolist() == [2.0, 3.0]
