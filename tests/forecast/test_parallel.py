from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from forecast.steps import LAW
from mlcd.forecast.parallel import Placement, StepLaw


def test_one_device_synchronises_nothing() -> None:
    alone = Placement("t4", "t4x1", 1, 1, 64)
    assert LAW.step_seconds(alone) == pytest.approx(LAW.compute_seconds(64))


def test_a_share_too_large_for_a_device_is_cut_into_equal_pieces() -> None:
    cut = Placement("t4", "t4x1", 2, 1, 1200, micro_limit=256)
    assert (cut.local_batch, cut.micro_batches, cut.micro_batch) == (600, 3, 200)


def test_pieces_synchronise_once() -> None:
    whole = Placement("t4", "t4x1", 2, 1, 512, micro_limit=256)
    cut = replace(whole, batch=1024)
    more = LAW.step_seconds(cut) - LAW.step_seconds(whole)
    assert more == pytest.approx(LAW.compute_seconds(256))


def test_without_overlap_and_saturation_it_is_scavengers_sum() -> None:
    plain = StepLaw(0.01, 1e-3, 1, 100, saturation=1.0, overlap=1.0, log_sync={(2, 1): 0.0})
    assert plain.step_seconds(Placement("t4", "t4x1", 2, 1, 100)) == pytest.approx(0.01 + 0.05 + 0.01)


def test_overlap_hides_the_shorter_of_compute_and_sync() -> None:
    hiding = replace(LAW, overlap=6.0)
    far = Placement("t4", "t4x1", 8, 1, 2048)
    assert LAW.compute_seconds(256) < hiding.step_seconds(far) < LAW.step_seconds(far)


def test_small_batches_do_not_get_faster_for_ever() -> None:
    assert LAW.compute_seconds(1) == pytest.approx(LAW.alpha_seconds, rel=0.02)
    assert Placement("t4", "t4x1", 1, 1, 10**6).micro_limit == inf
