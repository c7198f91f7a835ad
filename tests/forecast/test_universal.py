from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from forecast.steps import LAW, placements
from mlcd.forecast.parallel import Placement, StepLaw
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
