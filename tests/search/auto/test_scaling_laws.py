"""What the laws expect of a deployment that nobody measured."""

from __future__ import annotations

import numpy as np
import pytest

from mlcd.core.machines import Deployment, InstanceType, Offer
from mlcd.search.auto.features import describe
from mlcd.search.auto.scaling_laws import Prior, covariances, law_means, reference_of, variances


def offer(name: str, usd: float = 1.0, gpu_model: str = "", spot: bool = False) -> Offer:
    return Offer("test", InstanceType(name, gpu_model=gpu_model), usd, 8, spot=spot)


def test_a_size_is_its_price_in_units_of_the_smallest_of_its_family() -> None:
    features = describe([Deployment(offer(f"c4.{size}", usd), 1) for size, usd in (("large", 0.1), ("xlarge", 0.2))])
    _, log_sizes = reference_of(features, features).hints(features)
    assert np.exp(log_sizes) == pytest.approx([1.0, 2.0])


def test_a_spot_price_says_nothing_of_the_speed() -> None:
    features = describe([Deployment(offer("c4.large", 0.1), 2), Deployment(offer("c4.large", 0.03, spot=True), 2)])
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
