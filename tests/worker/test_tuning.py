import pytest

import mlcd
from mlcd.worker.noise import NOISE_SCALE, NOISE_STABLE
from worker.sessions import Inside


def test_outside_mlcd_the_program_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (mlcd.batch_size(64), mlcd.local_batch_size(64), mlcd.accumulation_steps(), mlcd.lr_scale()) == (
        64,
        64,
        1,
        1.0,
    )


def test_the_default_is_shared_among_the_ranks(inside: Inside) -> None:
    inside(WORLD_SIZE=4)
    assert (mlcd.batch_size(64), mlcd.local_batch_size(64)) == (64, 16)


def test_parameter_servers_have_no_share(inside: Inside) -> None:
    inside(WORLD_SIZE=5, MLCD_SERVERS=1)
    assert mlcd.local_batch_size(64) == 16


def test_what_mlcd_chose_goes_before_the_default(inside: Inside) -> None:
    inside(WORLD_SIZE=2, MLCD_BATCH_SIZE=256, MLCD_LOCAL_BATCH_SIZE=128)
    assert (mlcd.batch_size(64), mlcd.local_batch_size(64)) == (256, 128)


def test_a_rank_that_accumulates_loads_a_part_of_its_share_at_a_time(inside: Inside) -> None:
    inside(WORLD_SIZE=2, MLCD_BATCH_SIZE=256, MLCD_LOCAL_BATCH_SIZE=128, MLCD_ACCUMULATION_STEPS=4)
    assert (mlcd.accumulation_steps(), mlcd.local_batch_size(64)) == (4, 32)


@pytest.mark.parametrize(
    ("rule", "factor"), [("none", 1.0), ("linear", 4.0), ("sqrt", 2.0), ("Linear ", 4.0), ("cubic", 1.0)]
)
def test_the_learning_rate_follows_the_rule(inside: Inside, rule: str, factor: float) -> None:
    inside(MLCD_LR_RULE=rule, MLCD_BATCH_SIZE=256, MLCD_BASE_BATCH_SIZE=64)
    assert mlcd.lr_scale() == factor


def test_a_factor_that_mlcd_gives_is_believed(inside: Inside) -> None:
    inside(MLCD_LR_RULE="linear", MLCD_LR_SCALE=1.5, MLCD_BATCH_SIZE=256, MLCD_BASE_BATCH_SIZE=64)
    assert mlcd.lr_scale() == 1.5


def test_without_a_base_batch_size_nothing_is_scaled(inside: Inside) -> None:
    inside(MLCD_LR_RULE="linear", MLCD_BATCH_SIZE=256)
    assert mlcd.lr_scale() == 1.0


ADASCALE = {"MLCD_LR_RULE": "adascale", "MLCD_BATCH_SIZE": 256, "MLCD_BASE_BATCH_SIZE": 64}


def test_adascale_lies_between_one_and_linear_and_follows_the_noise(inside: Inside) -> None:
    session = inside(**ADASCALE)
    assert mlcd.lr_scale() == 1.0
    session.metrics.update({NOISE_SCALE: 128.0, NOISE_STABLE: 1.0})
    variance, signal = 128 / 64, 1.0
    assert mlcd.lr_scale() == pytest.approx((variance + signal) / (variance / 4 + signal))
    session.metrics[NOISE_SCALE] = 1e9
    assert mlcd.lr_scale() == pytest.approx(4.0, rel=1e-5)
    session.metrics[NOISE_SCALE] = 1e-6
    assert mlcd.lr_scale() == pytest.approx(1.0)


def test_adascale_does_not_use_noise_that_has_not_settled(inside: Inside) -> None:
    session = inside(**ADASCALE, MLCD_LR_SCALE=1.25)
    session.metrics.update({NOISE_SCALE: 128.0, NOISE_STABLE: 0.0})
    assert mlcd.lr_scale() == 1.25


def test_ranks_that_train_together_use_what_all_of_them_know(inside: Inside) -> None:
    """Rank 0 alone gathers the noise: if it used the newest value, its replica would part from the others'."""
    session = inside(**ADASCALE, WORLD_SIZE=2, MLCD_NOISE_SCALE=64)
    session.metrics.update({NOISE_SCALE: 1e9, NOISE_STABLE: 1.0})
    assert mlcd.lr_scale() == pytest.approx(2 / 1.25)


def test_ranks_take_up_the_noise_of_their_checkpoint(inside: Inside) -> None:
    session = inside(**ADASCALE, WORLD_SIZE=2)
    session.report(None, None, {NOISE_SCALE: 128.0, NOISE_STABLE: 1.0})
    with mlcd.checkpoint():
        pass
    inside(**ADASCALE, WORLD_SIZE=2, RANK=1)
    assert mlcd.lr_scale() == 1.0
    mlcd.last_checkpoint()
    assert mlcd.lr_scale() == pytest.approx(2.0)
