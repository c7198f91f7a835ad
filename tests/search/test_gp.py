"""The Gaussian process: right, quick enough, and not upset by odd data."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from mlcd.search import gp

ONE_KIND = np.zeros(40, dtype=np.intp)


def curve(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.sin(2.0 * x[:, 0]) + 0.3 * x[:, 1]


def grid(count: int, seed: int) -> NDArray[np.float64]:
    return np.random.default_rng(seed).uniform(-1.5, 1.5, (count, 2))


def test_a_smooth_function_is_found_from_forty_values() -> None:
    x, unseen = grid(40, 0), grid(200, 1)
    model = gp.fit(x, ONE_KIND, curve(x), np.zeros(40))
    mean, sd = model.predict(unseen, np.zeros(200, dtype=np.intp))
    error = np.abs(mean - curve(unseen))
    assert error.mean() < 0.03
    assert np.mean(error < 1.96 * sd + 1e-3) > 0.9


def test_observed_points_are_predicted_as_they_were_seen_and_far_ones_are_uncertain() -> None:
    x = grid(10, 0)
    model = gp.fit(x, ONE_KIND[:10], curve(x), np.zeros(10))
    mean, sd = model.predict(np.vstack([x, [[50.0, 50.0]]]), np.zeros(11, dtype=np.intp))
    assert mean[:10] == pytest.approx(curve(x), abs=0.1)
    assert sd[10] > 5 * sd[:10].max()


def test_the_gradient_is_that_of_the_objective() -> None:
    rng = np.random.default_rng(3)
    x, category = grid(8, 2), rng.integers(0, 3, 8)
    apart = gp._squared_parts(x, category)
    theta, mean, spread = rng.normal(0.0, 0.4, 5), np.zeros(5), np.full(5, 0.8)
    arguments = (apart, curve(x), np.full(8, 1e-3), mean, spread)
    _, gradient = gp._negative_log_posterior(theta, *arguments)
    for i in range(5):
        step = np.eye(5)[i] * 1e-6
        above, _ = gp._negative_log_posterior(theta + step, *arguments)
        below, _ = gp._negative_log_posterior(theta - step, *arguments)
        assert gradient[i] == pytest.approx((above - below) / 2e-6, rel=1e-4, abs=1e-5)


def test_another_category_is_less_certain_than_the_same() -> None:
    x = np.linspace(-1, 1, 6)[:, None]
    model = gp.fit(x, np.array([0, 1] * 3), np.array([0.0, 3.0, 0.2, 3.1, 0.4, 3.3]), np.zeros(6))
    mean, sd = model.predict(np.array([[0.0], [0.0], [0.0]]), np.array([0, 1, 2]))
    assert mean[1] - mean[0] > 2.0
    assert sd[2] > 2 * sd[0]


@pytest.mark.parametrize(
    "values",
    [[5.0], [5.0, 5.0, 5.0], [1e-9, 1e9], [-700.0, 700.0, 0.0]],
    ids=["one", "equal", "apart", "huge"],
)
def test_degenerate_values_give_finite_predictions(values: list[float]) -> None:
    count = len(values)
    model = gp.fit(grid(count, 0), ONE_KIND[:count], np.array(values), np.zeros(count))
    mean, sd = model.predict(grid(50, 1), np.zeros(50, dtype=np.intp))
    assert np.all(np.isfinite(mean))
    assert np.all(sd > 0)


def test_the_same_point_seen_twice_with_different_values_is_noise() -> None:
    x = np.zeros((6, 2))
    model = gp.fit(x, ONE_KIND[:6], np.array([1.0, 2.0, 1.0, 2.0, 1.0, 2.0]), np.zeros(6))
    mean, _ = model.predict(np.zeros((1, 2)), np.zeros(1, dtype=np.intp))
    assert mean[0] == pytest.approx(1.5, abs=0.05)


def test_predicting_in_pieces_is_predicting_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    x = grid(10, 0)
    model = gp.fit(x, ONE_KIND[:10], curve(x), np.zeros(10))
    whole = model.predict(grid(99, 1), np.zeros(99, dtype=np.intp))
    monkeypatch.setattr(gp, "_PRODUCT_WITHOUT_THREADS", 1)
    pieces = model.predict(grid(99, 1), np.zeros(99, dtype=np.intp))
    assert np.allclose(whole, pieces)
