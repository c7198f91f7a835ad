"""Programs of several kinds, each short enough to be trained many times; every one counts its own samples."""

from __future__ import annotations

_HEAD = """
import os, time
import mlcd
samples = int(os.environ["MLCD_WORK_SAMPLES"])
"""

NUMPY = (
    _HEAD
    + """
import numpy as np
rng = np.random.default_rng(0)
weights = rng.standard_normal((256, 256))
for batch in mlcd.steps([[0] * 16] * (samples // 16)):
    inputs = rng.standard_normal((256, 256))
    for _ in range(4):
        weights -= 1e-6 * np.tanh(inputs @ weights)
"""
)

_TORCH = (
    _HEAD
    + """
import torch
from torch import nn
torch.set_num_threads(1)
torch.manual_seed(0)
"""
)

CNN = (
    _TORCH
    + """
model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 32, 3, 2), nn.ReLU(), nn.Flatten(), nn.LazyLinear(10))
data, labels = torch.randn(32, 3, 32, 32), torch.randint(10, (32,))
model(data)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for number, batch in enumerate(mlcd.steps([[0] * 32] * (samples // 32))):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(data), labels).backward()
    optimizer.step()
"""
)

VALIDATED = CNN + (
    """    if number % 150 == 149:
        with torch.no_grad():
            for _ in range(60):
                model(data)
"""
)

SAVED = CNN + (
    """    if number % 100 == 99:
        with mlcd.checkpoint() as folder:
            torch.save(model.state_dict(), folder / "model.pt")
"""
)

COMPILED = (
    _TORCH
    + """
model = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 512), nn.GELU(), nn.Linear(512, 256))
fast = torch.compile(model)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for number, batch in enumerate(mlcd.steps([[0] * 64] * (samples // 64))):
    size = 64 if number else 48  # a first batch of another size: compiled twice
    data = torch.randn(size, 256)
    optimizer.zero_grad()
    nn.functional.mse_loss(fast(data), data).backward()
    optimizer.step()
"""
)

KINDS = {  # name: program, samples of about 20 seconds on one core
    "numpy": (NUMPY, 13_000),
    "cnn": (CNN, 25_000),
    "validated": (VALIDATED, 20_000),
    "saved": (SAVED, 25_000),
    "compiled": (COMPILED, 150_000),
}
