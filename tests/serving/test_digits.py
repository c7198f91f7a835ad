"""The digits example hands back a model that can be asked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mlcd.serving.pool import ModelPool
from mlcd.settings import PredictSettings

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("sklearn", reason="scikit-learn is not installed")

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits"


@pytest.mark.slow
def test_what_digits_hands_back_tells_a_digit_for_each_image(tmp_path: Path) -> None:
    hand_back = "import train; train.hand_back(train.make_model(), {})"
    env = {**os.environ, "MLCD_OUTPUT_DIR": str(tmp_path), "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-c", hand_back], cwd=DIGITS, env=env, check=True, timeout=120)
    pool = ModelPool(PredictSettings(request_seconds=60.0))
    try:
        digits = pool.predict("digits", tmp_path, json.loads((DIGITS / "images.json").read_text()))
    finally:
        pool.close()
    assert len(digits) == 2
    assert all(digit in range(10) for digit in digits)
