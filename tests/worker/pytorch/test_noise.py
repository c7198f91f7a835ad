import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mlcd.worker.noise import GRAD_NOISE, NOISE_GROUPS, NOISE_SCALE, Noise, NoiseMeter
from mlcd.worker.noise.schedule import Schedule
from worker.programs import finish, free_port, start
from worker.sessions import Inside, lines

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch import nn  # noqa: E402  # needs torch

from mlcd.worker.pytorch.noise import NoiseWatch  # noqa: E402

DIMENSIONS, SPREAD = 10, 1.5
# Regression at a fixed distance δ of ones from the truth: g = (x·δ - ε)·x, so |G|² = |δ|² and, for normal x and ε,
# tr(Σ) = (d + 1)·|δ|² + d·var(ε).
SIGNAL = float(DIMENSIONS)
VARIANCE = (DIMENSIONS + 1) * SIGNAL + DIMENSIONS * SPREAD**2


class EveryStep(Schedule):
    def due(self, step: int) -> bool:
        return True


class ProcessInfo(list[Noise]):
    """All that the meter has told."""


@pytest.fixture
def seen(inside: Inside) -> Iterator[ProcessInfo]:
    inside()
    yield ProcessInfo()
    disarm()


def disarm() -> None:
    """A training that is over leaves a watch that waits for the next step of a model that is gone."""
    nn.modules.module._global_forward_pre_hooks.clear()


def watched(optimizer: Any, seen: ProcessInfo) -> NoiseWatch:
    watch = NoiseWatch(NoiseMeter(seen.append), EveryStep())
    optimizer.register_step_post_hook(lambda one, args, kwargs: watch.stepped(one))
    watch.stepped(optimizer)  # the first step only arms
    return watch


def regression_batch(samples: int) -> tuple[Any, Any]:
    x = torch.randn(samples, DIMENSIONS)
    return x, SPREAD * torch.randn(samples, 1) - x.sum(1, keepdim=True)


def fixed_model() -> Any:
    model = nn.Linear(DIMENSIONS, 1, bias=False)
    nn.init.zeros_(model.weight)
    return model


def half_squared_error(model: Any, samples: int) -> Any:
    x, y = regression_batch(samples)
    return 0.5 * ((model(x) - y) ** 2).mean()


def test_splitting_the_batch_finds_the_known_noise(seen: ProcessInfo) -> None:
    torch.manual_seed(0)
    model = fixed_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    watched(optimizer, seen)
    for _ in range(600):
        half_squared_error(model, 32).backward()
        optimizer.step()
        optimizer.zero_grad()
    assert seen[-1].groups == 2
    assert len(seen) == 600
    assert mean_scale(seen) == pytest.approx(VARIANCE / SIGNAL, rel=0.15)


def test_micro_batches_find_the_known_noise(seen: ProcessInfo) -> None:
    torch.manual_seed(0)
    model = fixed_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    watched(optimizer, seen)
    for _ in range(600):
        for _ in range(4):
            (half_squared_error(model, 8) / 4).backward()
        optimizer.step()
        optimizer.zero_grad()
    assert seen[-1].groups == 4
    assert mean_scale(seen) == pytest.approx(VARIANCE / SIGNAL, rel=0.15)


def mean_scale(seen: ProcessInfo) -> float:
    """The mean of what was told once the first hundred steps were over: each smoothed value still wavers."""
    scales = [noise.noise_scale for noise in seen[100:] if noise.noise_scale is not None]
    return sum(scales) / len(scales)


class Twigs(nn.Module):
    """Dropout, shared and frozen weights, an unused part, and a result that is a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 12)
        self.norm = nn.BatchNorm1d(12)
        self.inner = nn.Sequential(nn.Linear(12, 12), nn.ReLU(), nn.Dropout(0.3))
        self.out = nn.Linear(12, 20)
        self.out.weight = self.embed.weight
        self.inner[0].bias.requires_grad_(False)
        self.unused = nn.Linear(3, 3)

    def forward(self, words: Any) -> dict[str, Any]:
        hidden = self.norm(self.embed(words).mean(1))
        return {"logits": self.out(self.inner(self.inner(hidden))), "note": hidden.detach()}


def plain(model: Any, optimizer: Any, words: Any) -> None:
    nn.functional.cross_entropy(model(words)["logits"], words[:, 0]).backward()
    optimizer.step()
    optimizer.zero_grad()


def clipped(model: Any, optimizer: Any, words: Any) -> None:
    nn.functional.cross_entropy(model(words)["logits"], words[:, 0]).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
    optimizer.step()
    optimizer.zero_grad()


def accumulated(model: Any, optimizer: Any, words: Any) -> None:
    for part in words.chunk(3):
        nn.functional.cross_entropy(model(part)["logits"], part[:, 0]).backward()
    optimizer.step()
    optimizer.zero_grad()


def twice_through_one_graph(model: Any, optimizer: Any, words: Any) -> None:
    logits = model(words)["logits"]
    nn.functional.cross_entropy(logits, words[:, 0]).backward(retain_graph=True)
    (0.1 * logits.square().mean()).backward()
    optimizer.step()
    optimizer.zero_grad()


def penalised(model: Any, optimizer: Any, words: Any) -> None:
    model.zero_grad()
    logits = model(words)["logits"]
    penalty = sum(one.square().sum() for one in model.parameters())
    (nn.functional.cross_entropy(logits, words[:, 0]) + 1e-4 * penalty).backward()
    optimizer.step()


def with_a_validation_between(model: Any, optimizer: Any, words: Any) -> None:
    model.eval()
    with torch.no_grad():
        model(words)
    model.train()
    plain(model, optimizer, words)


def twice_by_create_graph(model: Any, optimizer: Any, words: Any) -> None:
    logits = model(words)["logits"]
    loss = nn.functional.cross_entropy(logits, words[:, 0])
    (slope,) = torch.autograd.grad(loss, logits, create_graph=True)
    (loss + slope.square().sum()).backward()
    optimizer.step()
    optimizer.zero_grad()


def mixed_precision(model: Any, optimizer: Any, words: Any) -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(model(words)["logits"], words[:, 0])
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


STEPS: list[Callable[[Any, Any, Any], None]] = [
    plain,
    clipped,
    accumulated,
    twice_through_one_graph,
    penalised,
    with_a_validation_between,
    twice_by_create_graph,
    mixed_precision,
]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_the_training_is_the_same_bit_for_bit(step: Callable[[Any, Any, Any], None], seen: ProcessInfo) -> None:
    torch.manual_seed(3)
    model = Twigs()
    other = copy.deepcopy(model)
    bare = trained(other, step, None)
    measured = trained(model, step, seen)
    assert all(torch.equal(bare[name], measured[name]) for name in bare)
    if step not in (twice_through_one_graph, twice_by_create_graph):  # of which gradient would the noise be?
        assert len(seen) == 6
        assert all(1 / noise.groups <= noise.normalised <= 1.2 for noise in seen)
    assert_no_hooks_are_left(model)


def trained(model: Any, step: Callable[[Any, Any, Any], None], seen: ProcessInfo | None) -> dict[str, Any]:
    torch.manual_seed(4)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    watch = watched(optimizer, seen) if seen is not None else None
    for number in range(6):
        words = torch.randint(0, 20, (30, 4), generator=torch.Generator().manual_seed(number))
        step(model, optimizer, words)
    if watch is not None and watch._sample is not None:
        watch._sample.close()
    return dict(model.state_dict())


def assert_no_hooks_are_left(model: Any) -> None:
    assert not nn.modules.module._global_forward_pre_hooks
    for module in model.modules():
        assert not module._forward_hooks
    for parameter in model.parameters():
        assert not parameter._backward_hooks
        assert not parameter._post_accumulate_grad_hooks


def test_a_gradient_scaler_changes_nothing(seen: ProcessInfo) -> None:
    """Its scale doubles on the way: unless that is seen, old and new norms do not compare."""
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=5)
    train_scaled(seen, scaler)
    assert scaler.get_scale() > 1024.0
    bare = ProcessInfo()
    train_scaled(bare, torch.amp.GradScaler("cpu", enabled=False))
    assert len(seen) == 20
    assert [one.noise_scale for one in seen] == pytest.approx([one.noise_scale for one in bare], rel=1e-4)


def train_scaled(seen: ProcessInfo, scaler: Any) -> None:
    torch.manual_seed(0)
    model = fixed_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    watched(optimizer, seen)
    for _ in range(20):
        scaler.scale(half_squared_error(model, 32)).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    disarm()


def test_a_step_that_overflows_is_left_out(seen: ProcessInfo) -> None:
    model = fixed_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    watched(optimizer, seen)
    for number in range(6):
        (half_squared_error(model, 32) * (float("inf") if number == 2 else 1.0)).backward()
        model.weight.grad.nan_to_num_(0.0, 0.0, 0.0)
        optimizer.step()
        optimizer.zero_grad()
    assert [one.observations for one in seen] == [1, 2, 3, 4, 5]


def test_a_model_that_returns_its_loss_is_left_alone(seen: ProcessInfo) -> None:
    class Loss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(DIMENSIONS, 1)

        def forward(self, x: Any) -> Any:
            return self.inner(x).square().mean()

    model = Loss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    watched(optimizer, seen)
    for _ in range(4):
        model(torch.randn(8, DIMENSIONS)).backward()
        optimizer.step()
        optimizer.zero_grad()
    assert not seen


def test_a_graph_that_can_be_gone_through_only_once_is_left_alone(
    seen: ProcessInfo, capsys: pytest.CaptureFixture[str]
) -> None:
    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(DIMENSIONS, 5), nn.Linear(5, 2)

        def forward(self, x: Any) -> Any:
            hidden = torch.utils.checkpoint.checkpoint(self.second, self.first(x), use_reentrant=True)
            return hidden * 1.0

    model = Checkpointed()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    watched(optimizer, seen)
    for _ in range(3):
        model(torch.randn(8, DIMENSIONS)).square().mean().backward()
        assert model.first.weight.grad is not None
        optimizer.step()
        optimizer.zero_grad()
    assert not seen
    assert "cannot be split" in capsys.readouterr().err


def test_hooks_of_the_program_see_one_backward_pass(seen: ProcessInfo) -> None:
    model = nn.Sequential(nn.Linear(DIMENSIONS, 4), nn.Linear(4, 2))
    calls = []
    model[0].register_full_backward_hook(lambda *args: calls.append("module"))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    watched(optimizer, seen)
    for _ in range(3):
        model(torch.randn(8, DIMENSIONS, requires_grad=True)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    assert calls == ["module"] * 3
    assert not seen


PROGRAM = """
import os
import time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

ranks = int(os.environ["WORLD_SIZE"])
if ranks > 1:
    dist.init_process_group("gloo")
torch.manual_seed(int(os.environ["RANK"]))
model = torch.nn.Linear(200, 1, bias=False)
torch.nn.init.zeros_(model.weight)
model.unused = torch.nn.Linear(2, 2)
model.frozen = torch.nn.Linear(2, 2).requires_grad_(False)
trained = DistributedDataParallel(model, find_unused_parameters=True, OPTIONS) if ranks > 1 else model
optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
x = torch.randn(25600 // ranks, 200)
data = torch.utils.data.TensorDataset(x, -x.sum(1, keepdim=True))
for epoch in range(EPOCHS):
    for x, y in torch.utils.data.DataLoader(data, batch_size=256 // ranks, shuffle=True):
        optimizer.zero_grad()
        (0.5 * ((trained(x) - y) ** 2).mean()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
if ranks > 1:
    time.sleep(1.2)  # the last norms are on their way
    dist.barrier()
    dist.destroy_process_group()
"""


def measured(folder: Path, ranks: int, epochs: int, options: str = "") -> dict[str, float]:
    """What rank 0 reported last."""
    folder.mkdir()
    program = PROGRAM.replace("OPTIONS", options).replace("EPOCHS", str(epochs))
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(), "GLOO_SOCKET_IFNAME": "lo"}
    processes = [start(program, folder, RANK=rank, WORLD_SIZE=ranks, MLCD_NOISE=1, **place) for rank in range(ranks)]
    for process in processes:
        assert "mlcd:" not in finish(process)
    noise = [line["metrics"] for line in lines(folder / "progress") if GRAD_NOISE in line.get("metrics", {})]
    return dict(noise[-1])


@pytest.mark.parametrize("options", ["", "gradient_as_bucket_view=True"])
def test_two_ranks_and_one_process_that_splits_find_the_same_noise(tmp_path: Path, options: str) -> None:
    """Both train with the same global batch in two groups: γ/K and the noise scale are the same quantities."""
    alone = measured(tmp_path / "alone", 1, epochs=20)
    together = measured(tmp_path / "together", 2, 4, options)
    assert alone[NOISE_GROUPS] == together[NOISE_GROUPS] == 2
    ratio = 201 / 256  # noise scale by the formula above, without ε, to the batch
    for found in (alone, together):
        assert found[GRAD_NOISE] == pytest.approx((0.5 + ratio) / (1 + ratio), rel=0.05)
        assert found[NOISE_SCALE] == pytest.approx(201, rel=0.4)


ACCUMULATING = """
import contextlib, hashlib, os, time
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Dropout(0.2), torch.nn.Linear(32, 3))
trained = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(dist.get_rank())
for step in range(40):
    for part in range(2):
        x = torch.randn(6, 8)
        with trained.no_sync() if part == 0 else contextlib.nullcontext():
            torch.nn.functional.cross_entropy(trained(x), x[:, :3].argmax(1)).backward()
    optimizer.step()
    optimizer.zero_grad()
weights = b"".join(one.detach().numpy().tobytes() for one in model.parameters())
print(hashlib.sha256(weights).hexdigest())
time.sleep(1.2)
dist.barrier()
dist.destroy_process_group()
"""


def test_ranks_that_accumulate_train_the_same_bit_for_bit(tmp_path: Path) -> None:
    printed = []
    for noise in (0, 1):
        folder = tmp_path / str(noise)
        folder.mkdir()
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(), "GLOO_SOCKET_IFNAME": "lo"}
        processes = [
            start(ACCUMULATING, folder, RANK=rank, WORLD_SIZE=2, MLCD_NOISE=noise, **place) for rank in range(2)
        ]
        printed += [finish(process) for process in processes]
    assert len(set(printed)) == 1, printed
    found = [line["metrics"] for line in lines(tmp_path / "1" / "progress") if "metrics" in line]
    assert found[-1][NOISE_GROUPS] == 2
    assert 0.5 <= found[-1][GRAD_NOISE] <= 1.1  # at most 1 in the long run
    assert not any(NOISE_GROUPS in line.get("metrics", {}) for line in lines(tmp_path / "0" / "progress"))
