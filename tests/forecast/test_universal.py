from __future__ import annotations

from dataclasses import asdict, replace
from math import log

import numpy as np
import pytest

from forecast.steps import LAW, placements
from mlcd.forecast.parallel import Placement, StepLaw, SyncTrend
from mlcd.forecast.universal import Probe, universal_model


def job(factor: float) -> dict[str, StepLaw]:
    """A job that is so many times as long as another, on two families, the second three times as fast."""
    slow = replace(LAW, alpha_seconds=LAW.alpha_seconds * factor, beta_seconds=LAW.beta_seconds * factor)
    fast = replace(slow, alpha_seconds=slow.alpha_seconds / 3, beta_seconds=slow.beta_seconds / 3)
    return {"t4": slow, "v100": fast}


PLACE = Placement("t4", "t4x1", 1, 1, 256, 256)


def probe(law: StepLaw, pieces: bool) -> Probe:
    small = (16.0, law.compute_seconds(16)) if pieces else (None, None)
    return Probe(PLACE, law.step_seconds(PLACE), *small)


def errors(pieces: bool) -> list[float]:
    truth = job(10.0)
    model = universal_model(probe(truth["t4"], pieces), 16, [job(1.0), job(3.0)])
    space = [*placements("t4"), *placements("v100")]
    return [abs(model.step(one).value / truth[one.family].step_seconds(one) - 1) for one in space]


def test_a_job_of_known_shape_is_foretold_from_one_probe() -> None:
    assert np.mean(errors(pieces=True)) < 0.03


def test_pieces_of_the_batch_tell_constant_from_samples() -> None:
    assert np.mean(errors(pieces=True)) < np.mean(errors(pieces=False))


def test_a_family_that_nobody_ran_on_is_foretold_widely() -> None:
    model = universal_model(probe(LAW, True), 16, [job(1.0)])
    strange = model.step(Placement("h100", "h100x1", 1, 1, 256))
    known = model.step(Placement("v100", "v100x1", 1, 1, 256))
    assert strange.log_spread > 3 * known.log_spread


def test_without_other_jobs_there_is_still_a_forecast() -> None:
    model = universal_model(probe(LAW, True), 16, [])
    for one in placements():
        assert 0.2 < model.step(one).value / LAW.step_seconds(one) < 5


def test_a_probe_on_several_devices_gives_the_scale_too() -> None:
    truth, cluster = job(10.0)["t4"], replace(PLACE, nodes=2, batch=1024)
    model = universal_model(Probe(cluster, truth.step_seconds(cluster)), 16, [job(1.0), job(3.0)])
    assert model.step(cluster).value == pytest.approx(truth.step_seconds(cluster), rel=0.01)
    assert model.step(PLACE).value == pytest.approx(truth.step_seconds(PLACE), rel=0.2)


def exchanging(factor: float) -> StepLaw:
    """A job whose exchange takes so many times as long as other jobs'."""
    trend = SyncTrend(
        **{**asdict(LAW.trend), "intra": LAW.trend.intra + log(factor), "inter": LAW.trend.inter + log(factor)}
    )
    return replace(LAW, trend=trend)


@pytest.mark.parametrize("factor", [0.2, 5.0])
def test_devices_seen_together_tell_an_exchange_unlike_other_jobs(factor: float) -> None:
    truth = exchanging(factor)
    alone, pair = probe(truth, True), replace(PLACE, nodes=2)
    together = replace(alone, together=pair, together_seconds=truth.step_seconds(pair))
    several = [one for one in placements() if one.devices > 1]

    def error(seen: Probe) -> float:
        model = universal_model(seen, 16, [job(1.0), job(3.0)])
        return float(np.mean([abs(model.step(one).value / truth.step_seconds(one) - 1) for one in several]))

    assert error(together) < 0.1
    assert error(together) < 0.5 * error(alone)


def test_data_sheets_say_which_family_is_faster_where_no_job_does() -> None:
    model = universal_model(probe(LAW, True), 16, [])
    slow, fast = (model.step(Placement(family, f"{family}x1", 1, 1, 256)) for family in ("k80", "a100"))
    here = LAW.step_seconds(PLACE)
    assert fast.value < here < slow.value


def test_intervals_hold_jobs_unlike_others() -> None:
    held = []
    for factor in (0.2, 1.0, 5.0):
        truth = exchanging(factor)
        model = universal_model(probe(truth, True), 16, [job(1.0), job(3.0)])
        held += [model.step(one).low <= truth.step_seconds(one) <= model.step(one).high for one in placements()]
    assert np.mean(held) >= 0.9
