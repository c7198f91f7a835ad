from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlcd.worker import ElasticSampler
from worker.sessions import Inside

ATTEMPT = st.tuples(st.integers(1, 5), st.integers(1, 7), st.integers(0, 9))  # ranks, local batch, steps


def train(size: int, attempts: list[tuple[int, int, int]], shuffle: bool = True) -> list[int]:
    """The samples seen, in order, by a training that is stopped and goes on with other ranks and batch sizes."""
    seen: list[int] = []
    for world_size, local_batch, steps in attempts:
        samplers = [ElasticSampler(size, 3, shuffle, rank=r, world_size=world_size) for r in range(world_size)]
        for sampler in samplers:
            sampler.load_state_dict({"samples_seen": len(seen)})
        taken = [take(sampler, local_batch * steps) for sampler in samplers]
        assert len({len(one) for one in taken}) == 1, "ranks must do equally much"
        seen += [taken[r][i] for i in range(len(taken[0])) for r in range(world_size)]
    return seen


def take(sampler: ElasticSampler, count: int) -> list[int]:
    """As many samples as asked for, from one epoch after the other."""
    taken: list[int] = []
    while len(taken) < count:
        taken += list(sampler)
    return taken[:count]


@settings(deadline=None)
@given(st.integers(1, 40), st.lists(ATTEMPT, max_size=8), st.booleans())
def test_no_sample_is_lost_or_seen_twice_within_an_epoch(
    size: int, attempts: list[tuple[int, int, int]], shuffle: bool
) -> None:
    seen = train(size, attempts, shuffle)
    for epoch in range(len(seen) // size):
        assert sorted(seen[epoch * size : (epoch + 1) * size]) == list(range(size))
    rest = Counter(seen[len(seen) // size * size :])
    assert not rest or max(rest.values()) == 1


@settings(deadline=None)
@given(st.integers(1, 40), st.lists(ATTEMPT, max_size=8))
def test_the_order_depends_on_neither_ranks_nor_batch_size(size: int, attempts: list[tuple[int, int, int]]) -> None:
    seen = train(size, attempts)
    assert seen == train(size, [(1, 1, len(seen))])


@settings(deadline=None)
@given(st.integers(1, 60), st.sampled_from([1, 2, 3, 4, 6, 12]), st.integers(0, 100))
def test_with_a_batch_size_every_batch_is_full_and_the_length_is_true(size: int, world_size: int, seen: int) -> None:
    sampler = ElasticSampler(size, batch_size=12, rank=world_size - 1, world_size=world_size)
    sampler.load_state_dict({"samples_seen": seen})
    length = len(sampler)
    assert length == len(list(sampler))
    assert length % (12 // world_size) == 0
    assert sampler.samples_seen == seen + length * world_size
    assert sampler.samples_seen // size > seen // size, "the epoch is over"


def test_epochs_differ_and_seeds_differ() -> None:
    sampler = ElasticSampler(100, rank=0, world_size=1)
    first, second = list(sampler), list(sampler)
    assert first != second
    assert first != list(ElasticSampler(100, seed=1, rank=0, world_size=1))
    assert first == list(ElasticSampler(range(100), rank=0, world_size=1))


def test_a_loop_that_was_left_goes_on_where_it_was() -> None:
    sampler = ElasticSampler(10, rank=0, world_size=1)
    whole = list(ElasticSampler(10, rank=0, world_size=1))
    taken = []
    for index in sampler:
        taken.append(index)
        if len(taken) == 4:
            break
    assert sampler.samples_seen == 4
    assert taken + list(sampler) == whole


def test_an_iteration_long_left_does_not_move_the_place() -> None:
    sampler = ElasticSampler(10, rank=0, world_size=1)
    old = iter(sampler)
    next(old)
    sampler.load_state_dict({"samples_seen": 7})
    del old
    assert sampler.state_dict() == {"samples_seen": 7}


def test_setting_an_epoch_skips_ahead_but_never_back() -> None:
    sampler = ElasticSampler(10, rank=0, world_size=1)
    sampler.set_epoch(2)
    assert sampler.samples_seen == 20
    sampler.set_epoch(0)
    assert (sampler.epoch, sampler.samples_seen) == (2, 20)


def test_under_mlcd_it_starts_after_the_samples_of_earlier_attempts(inside: Inside) -> None:
    inside(MLCD_SAMPLES_BEFORE=13, RANK=1, WORLD_SIZE=2)
    sampler = ElasticSampler(10, shuffle=False)
    assert (sampler.epoch, list(sampler)) == (1, [4, 6, 8, 0])
    assert sampler.samples_seen == 21


def test_under_mlcd_it_starts_after_the_samples_of_the_checkpoint(inside: Inside) -> None:
    import mlcd

    inside(MLCD_SAMPLES_BEFORE=30)
    for number, _ in enumerate(mlcd.steps([[0] * 3] * 4)):
        if number == 1:
            with mlcd.checkpoint():
                pass
    inside(MLCD_SAMPLES_BEFORE=42)
    mlcd.last_checkpoint()
    assert ElasticSampler(10).samples_seen == 36


def test_nothing_to_sample_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one sample"):
        ElasticSampler([])


def losses(torch: Any, attempts: list[tuple[int, int]]) -> list[float]:
    """Losses of a training whose ranks are simulated: their gradients are averaged as DDP does it."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(83, 5, generator=generator, dtype=torch.float64)
    targets = (inputs.sum(1, keepdim=True) > 0).double()
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    data = torch.utils.data.TensorDataset(inputs, targets)
    seen, curve = 0, []
    for world_size, steps in attempts:
        loaders = []
        for rank in range(world_size):
            sampler = ElasticSampler(data, batch_size=12, rank=rank, world_size=world_size)
            sampler.load_state_dict({"samples_seen": seen})
            loaders.append(forever(torch.utils.data.DataLoader(data, 12 // world_size, sampler=sampler)))
        for _ in range(steps):
            optimizer.zero_grad()
            parts = []
            for loader in loaders:
                x, y = next(loader)
                loss = torch.nn.functional.binary_cross_entropy_with_logits(model(x), y) / world_size
                loss.backward()
                parts.append(loss.item())
            optimizer.step()
            curve.append(sum(parts))
        seen += 12 * steps
    return curve


def forever(loader: Any) -> Any:
    while True:
        yield from loader


def test_loss_curves_with_and_without_reconfigurations_agree() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    straight = losses(torch, [(1, 60)])
    assert losses(torch, [(1, 13), (2, 19), (3, 11), (1, 17)]) == pytest.approx(straight, rel=1e-9)
    assert straight[-1] < straight[0] / 2
