"""The concerns that may move a run."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlcd.adapt.base import Keep, Move, Situation, Speed
from mlcd.adapt.policies import URGENT, decide, go_on_with_fewer, grow_batch, keep_limits, worth_moving
from mlcd.adapt.prospects import allows, elsewhere, samples_left
from mlcd.core.goal import Aim, Goal
from mlcd.core.machines import Deployment, InstanceType, Offer
from mlcd.core.study import Ledger

SMALL = Offer("local", InstanceType("small"), usd_per_hour=1.0, max_nodes=8)
BIG = Offer("local", InstanceType("big"), usd_per_hour=4.0, max_nodes=8)


def known(rate: float, spread: float = 0.02) -> Speed:
    return Speed(rate, rate * (1 - spread), rate * (1 + spread))


def situation(**changes: object) -> Situation:
    """An hour is left on four small nodes at 100 samples a second."""
    base = Situation(
        goal=Goal(Aim.FASTEST),
        spent=Ledger(600.0, 1.0),
        deployment=Deployment(SMALL, 4, 64),
        now=known(100.0),
        watched_seconds=60.0,
        samples_left=360_000.0,
        speeds={},
        move_seconds=60.0,
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def test_a_run_that_goes_well_is_left_alone() -> None:
    assert decide(situation(speeds={Deployment(SMALL, 2, 64): known(55.0)})) == Keep()


def test_a_slow_run_moves_to_what_keeps_the_deadline() -> None:
    late = situation(
        goal=Goal(Aim.CHEAPEST, deadline_seconds=3000.0),
        speeds={Deployment(BIG, 1, 64): known(110.0), Deployment(BIG, 2, 64): known(200.0)},
    )
    decision = keep_limits(late)
    assert isinstance(decision, Move)
    assert decision.deployment == Deployment(BIG, 2, 64)
    assert "past the limit" in decision.why


def test_where_nothing_keeps_the_limit_it_stays() -> None:
    hopeless = situation(goal=Goal(Aim.CHEAPEST, deadline_seconds=700.0), speeds={Deployment(BIG, 2, 64): known(200.0)})
    assert keep_limits(hopeless) == Keep()


def test_a_better_deployment_is_worth_the_move_only_if_it_gains_more_than_the_move_costs() -> None:
    other = {Deployment(BIG, 2, 64): known(200.0)}
    assert isinstance(worth_moving(situation(speeds=other)), Move)
    assert worth_moving(situation(speeds=other, samples_left=6_000.0)) == Keep()


def test_noise_does_not_move_a_run() -> None:
    assert worth_moving(situation(speeds={Deployment(BIG, 2, 64): known(108.0)})) == Keep()
    assert worth_moving(situation(speeds={Deployment(BIG, 2, 64): known(150.0, spread=0.5)})) == Keep()
    assert worth_moving(situation(speeds={Deployment(BIG, 2, 64): known(300.0)}, watched_seconds=3.0)) == Keep()


def test_each_move_raises_the_bar_for_the_next() -> None:
    other = {Deployment(BIG, 2, 64): known(125.0)}
    assert isinstance(worth_moving(situation(speeds=other)), Move)
    assert worth_moving(situation(speeds=other, moves=3)) == Keep()


def test_after_two_losses_it_goes_on_with_fewer_nodes() -> None:
    other = {Deployment(SMALL, 2, 64): known(75.0), Deployment(SMALL, 1, 64): known(40.0)}
    assert go_on_with_fewer(situation(speeds=other, losses=1)) == Keep()
    decision = go_on_with_fewer(situation(speeds=other, losses=2))
    assert isinstance(decision, Move)
    assert decision.deployment.nodes == 2


def test_the_batch_grows_only_as_far_as_the_noise_allows() -> None:
    larger = {Deployment(SMALL, 4, size): known(100.0 * size / 64) for size in (128, 256, 1024)}
    decision = grow_batch(situation(speeds=larger, noise_scale=300.0))
    assert isinstance(decision, Move)
    assert decision.deployment.batch_size == 256
    assert grow_batch(situation(speeds=larger, noise_scale=100.0)) == Keep()
    assert grow_batch(situation(speeds=larger)) == Keep()


def test_a_larger_batch_needs_more_samples() -> None:
    noisy = situation(noise_scale=64.0)
    assert samples_left(noisy, Deployment(SMALL, 4, 128)) == pytest.approx(360_000 * 192 / 128)
    recorded = situation(samples_at={64: 1000.0, 128: 1100.0})
    assert samples_left(recorded, Deployment(SMALL, 4, 128)) == pytest.approx(360_000 * 1.1)


@given(
    rate=st.floats(1, 1e4),
    others=st.lists(st.tuples(st.integers(1, 8), st.floats(1, 1e4), st.floats(0.0, 0.9)), max_size=6),
    deadline=st.floats(700, 1e6),
    budget=st.floats(1.5, 1e4),
)
def test_no_move_goes_to_where_a_limit_would_be_broken(
    rate: float, others: list[tuple[int, float, float]], deadline: float, budget: float
) -> None:
    speeds = {Deployment(BIG, nodes, 64): known(speed, spread) for nodes, speed, spread in others}
    now = situation(goal=Goal(Aim.CHEAPEST, deadline, budget), now=known(rate), speeds=speeds)
    decision = decide(now)
    if isinstance(decision, Move):
        chosen = next(other for other in elsewhere(now) if other.deployment == decision.deployment)
        assert allows(now, chosen.slow)


def test_a_reason_says_how_far_a_straggling_run_is_behind() -> None:
    fewer, here = Deployment(SMALL, 2, 64), Deployment(SMALL, 4, 64)
    behind = situation(now=known(30.0), speeds={fewer: known(90.0), here: known(150.0)})
    decision = worth_moving(behind)
    assert isinstance(decision, Move)
    assert decision.deployment == fewer
    assert "30/s instead of 150/s" in decision.why
    on_time = replace(behind, speeds={fewer: known(90.0), here: known(30.0)})
    assert "instead of" not in str(worth_moving(on_time)).split(";")[0]


def test_what_the_user_chose_is_left_alone_but_for_urgent_reasons() -> None:
    better = situation(speeds={Deployment(BIG, 2, 64): known(300.0)})
    assert isinstance(decide(better), Move)
    assert decide(better, URGENT) == Keep()
    late = replace(better, goal=Goal(Aim.CHEAPEST, deadline_seconds=3000.0))
    assert isinstance(decide(late, URGENT), Move)
