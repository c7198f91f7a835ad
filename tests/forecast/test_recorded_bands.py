"""The bands of forecasts, held against trainings that were recorded: benchmarks/forecast_bands.

The constants of the bands were chosen by some of runs.json, and by none of runs_elsewhere.json.
"""

from __future__ import annotations

import importlib.util
import json
from math import log
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks" / "forecast_bands"


@pytest.fixture
def cover() -> ModuleType:
    spec = importlib.util.spec_from_file_location("cover", FOLDER / "cover.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_about_nineteen_of_twenty_recorded_trainings_lie_within_their_bands(cover: ModuleType) -> None:
    runs = cover.usable(json.loads((FOLDER / "runs.json").read_text()))
    made = [(run["seconds"], cover.forecast_again(run)) for run in runs]
    held = [band.low_seconds <= took <= band.high_seconds for took, band in made if band is not None]
    assert len(held) >= 20
    assert sum(held) / len(held) >= 0.88


@pytest.mark.parametrize("number", [1, 2])
def test_about_nineteen_of_twenty_trainings_that_nothing_was_chosen_by_lie_within_their_bands(
    cover: ModuleType, number: int
) -> None:
    runs = cover.usable(json.loads((FOLDER / "runs_elsewhere.json").read_text()))
    made = [(run["seconds"], cover.forecast_again(run)) for run in runs if run["round"] == number]
    held = [band.low_seconds <= took <= band.high_seconds for took, band in made]
    assert len(held) >= 40
    assert sum(held) / len(held) >= 0.95


def test_bands_are_no_wider_than_they_have_to_be(cover: ModuleType) -> None:
    runs = cover.usable(json.loads((FOLDER / "runs_elsewhere.json").read_text()))
    quiet = [cover.forecast_again(run) for run in runs if not run["busy"]]
    widths = [log(band.high_seconds / band.low_seconds) / 2 for band in quiet]
    assert sum(widths) / len(widths) < 0.35


def test_compiling_is_not_extrapolated(cover: ModuleType) -> None:
    runs = cover.usable(json.loads((FOLDER / "runs_elsewhere.json").read_text()))
    compiled = [run for run in runs if run["kind"].endswith("compiled") and run["fresh"]]
    misses = [abs(log(run["seconds"] / cover.forecast_again(run).seconds)) for run in compiled]
    assert len(misses) >= 10
    assert sum(misses) / len(misses) < 0.1
