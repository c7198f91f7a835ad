"""Tells which digits images show. Handed back beside the weights, so that `mlcd predict` can ask the model."""

from __future__ import annotations

from pathlib import Path

import torch
from train import make_model

model = make_model()
model.load_state_dict(torch.load(Path(__file__).with_name("model.pt"), map_location="cpu"))
model.eval()


def predict(inputs: list[list[list[float]]]) -> list[int]:
    """The digits in images of 8 × 8 pixels between 0 and 16."""
    images = torch.tensor(inputs, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16
    with torch.no_grad():
        return [int(digit) for digit in model(images).argmax(1)]
