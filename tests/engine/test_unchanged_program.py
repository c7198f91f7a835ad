"""A torch program that knows nothing of mlcd: what it prints is shown, charted and acted on."""

from __future__ import annotations

import pytest

from mlcd.api import Client
from mlcd.core.run import JobState
from mlcd.reporting.training_figures import training_figures
from small_jobs import MakeJob

pytest.importorskip("torch", reason="torch is not installed")

PROGRAM = """
import time
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.rand(100, 1)
loader = DataLoader(TensorDataset(x, 3 * x), batch_size=20)
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(2000):
    for inputs, wanted in loader:
        loss = torch.nn.functional.mse_loss(model(inputs), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(0.01)
    print(f"epoch {epoch} loss={loss.item():.5f}", flush=True)
"""


@pytest.mark.slow
def test_a_target_printed_by_an_unchanged_torch_program_ends_the_training(client: Client, make_job: MakeJob) -> None:
    until = {"metric": "loss", "value": 0.01}
    work = {"epochs": 2000, "dataset_size": 100, "until": until}
    # Torch may take long to import on a busy computer.
    probe = {"warmup_seconds": 0.2, "min_seconds": 0.5, "max_seconds": 3, "silent_seconds": 120}
    job_id = client.submit(client.load(make_job(PROGRAM, platform="pytorch", work=work, probe=probe)))
    client.confirm(job_id)
    view = client.drive(job_id)
    assert view.record.state is JobState.SUCCEEDED, view.record.error
    assert view.run.attempts[-1].why == "loss reached its target"
    assert 0 < view.run.samples < 100_000

    story = client.story(job_id)
    losses = [point.value for point in story.metrics if point.name == "loss"]
    assert len(losses) > 5
    assert losses[-1] <= 0.01 < losses[0]
    assert "loss" in [figure.title for figure in training_figures(story)]
