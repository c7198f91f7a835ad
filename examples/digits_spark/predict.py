"""Which digits are on images, each of 8 × 8 or 64 numbers from 0 to 16. Needs no Spark."""

from pathlib import Path

import numpy as np

MODEL = np.load(Path(__file__).with_name("model.npz"))


def predict(inputs: list[list[float]]) -> list[int]:
    images = np.asarray(inputs, dtype=float).reshape(len(inputs), 64) / 16
    scores = images @ MODEL["coefficients"].T + MODEL["intercepts"]
    return [int(digit) for digit in scores.argmax(axis=1)]
