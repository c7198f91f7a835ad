"""What is read off an offer, and how it enters the laws."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mlcd.core.goal import Aim, Goal
from mlcd.core.machines import Deployment, InstanceType, Offer
from mlcd.core.study import ProbeTime, Study
from mlcd.search.auto_features import describe, family
from mlcd.search.auto_laws import Prior, covariances, law_means, reference_of, variances
from mlcd.search.auto_stakes import stakes_of


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
    features = describe([Deployment(plain, 2), Deployment(with_disk, 2)])
    assert features.usd.tolist() == [1.0, 1.5]
    assert features.log_price[0] == features.log_price[1]
    stakes = stakes_of(Study(Goal(Aim.CHEAPEST), (Deployment(with_disk, 2),), 100.0), features)
    assert stakes.usd.tolist() == [2.0, 3.0]


def test_what_is_charged_at_least_is_in_probes_trainings_and_limits() -> None:
    short = Deployment(replace(offer("c4.large"), least_seconds=60.0), 2)
    study = Study(Goal(Aim.CHEAPEST, budget_usd=0.03), (short,), 100.0, probe_time=ProbeTime(30.0, 0.0))
    stakes = stakes_of(study, describe(study.space))
    assert study.probe_usd(short) == pytest.approx(short.usd(60.0))
    assert stakes.probe_usd.tolist() == [pytest.approx(study.probe_usd(short))]
    assert stakes.value(np.array([10.0])).tolist() == [pytest.approx(short.usd(60.0))]
    assert stakes.required().tolist() == [np.inf]  # not even the minimum of a minute can be paid
    rich = replace(study, goal=Goal(Aim.CHEAPEST, budget_usd=0.04))
    assert np.isfinite(stakes_of(rich, describe(study.space)).required()).all()


def test_a_size_is_its_price_in_units_of_the_smallest_of_its_family() -> None:
    features = describe(
        [Deployment(offer(f"c4.{size}", usd), 1) for size, usd in (("large", 0.1), ("xlarge", 0.2))]
    )
    _, log_sizes = reference_of(features, features).hints(features)
    assert np.exp(log_sizes) == pytest.approx([1.0, 2.0])


def test_a_spot_price_says_nothing_of_the_speed() -> None:
    features = describe(
        [Deployment(offer("c4.large", 0.1), 2), Deployment(offer("c4.large", 0.03, spot=True), 2)]
    )
    means = law_means(features, reference_of(features, features), Prior())
    assert means[:, 0] == pytest.approx(means[:, 1])


def test_every_law_scales_less_than_in_proportion_and_gains_from_no_overhead() -> None:
    features = describe([Deployment(offer("c4.large"), nodes) for nodes in (1, 2, 4, 8, 16)])
    means = law_means(features, reference_of(features, features), Prior())
    assert np.all(np.diff(means, axis=1) < np.log(2.0))


def test_covariances_are_symmetric_positive_and_agree_with_the_variances() -> None:
    offers = [offer("c4.large", 0.1), offer("c4.xlarge", 0.2), offer("m4.large", 0.1), offer("a100x4", 11.0)]
    features = describe([Deployment(each, n, b) for each in offers for n in (1, 3, 9) for b in (16, 64)])
    reference = reference_of(features, features)
    k = covariances(features, features, reference, Prior())
    for own, diagonal in zip(k, variances(features, reference, Prior()), strict=True):
        assert own == pytest.approx(own.T)
        assert np.linalg.eigvalsh(own).min() > 0
        assert np.diag(own) == pytest.approx(diagonal)
