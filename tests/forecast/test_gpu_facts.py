from __future__ import annotations

import pytest

from mlcd.forecast.gpu_facts import log_speed


@pytest.mark.parametrize(
    "name", ["A100", "a100", "NVIDIA A100-SXM4-80GB", "Tesla T4", "NVIDIA GeForce RTX 2080 Ti", "rtx2080ti"]
)
def test_a_gpu_is_known_by_what_clouds_and_drivers_call_it(name: str) -> None:
    assert log_speed(name) is not None


def test_newer_gpus_of_a_line_are_faster() -> None:
    speeds = [log_speed(name) for name in ("k80", "p100", "v100", "a100", "h100", "h200", "b200")]
    assert speeds == sorted(speeds, key=lambda speed: speed or 0.0)


def test_a_machine_without_a_gpu_is_not_known() -> None:
    assert log_speed("e2-standard-4") is None
