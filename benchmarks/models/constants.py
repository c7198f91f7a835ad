"""How much the figures owe to the constants of the priors: `python benchmarks/models/constants.py FOLDER`.

Each constant is halved and doubled, one at a time. Where the models were fitted to the recorded jobs by these numbers, the
errors would grow at once.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from types import ModuleType

from mlcd.forecast import samples_needed, step_fit, universal
from mlcd_bench.models.data import RecordedJob, read_jobs
from mlcd_bench.models.evaluation import Mode, run_models

NAMES = {
    universal: ("LAW_SPREAD", "SYNC_SPREAD", "SEEN_SPREAD", "SHAPE_SPREAD", "SYNC_SHAPE_SPREAD", "FACTS_COUNT"),
    samples_needed: ("PAYS_AT", "PAYS_SPREAD", "FIRST_NOISE_SPREAD", "FALL_SPREAD"),
    step_fit: (
        *("SHARED_SPREAD", "STEP_SPREAD", "LOAD_SPREAD", "SATURATION_SPREAD", "OVERLAP_SPREAD", "KIN_SPREAD"),
        *("SYNC_LEVEL_SPREAD", "INTRA_SLOPE_SPREAD", "SLOPE_SPREAD", "SMOOTH_SPREAD", "CLUSTER_SPREAD", "GRID_SPREAD"),
        "DOUBT",
    ),
}


def constants() -> Iterator[tuple[ModuleType, str, object, object]]:
    """Module, name, value, and another value."""
    for factor in (0.5, 2.0):
        for module, names in NAMES.items():
            for name in names:
                yield module, name, getattr(module, name), factor * getattr(module, name)
        for name, value in universal.FAMILY_SPREAD.items():
            before = dict(universal.FAMILY_SPREAD)
            yield universal, "FAMILY_SPREAD", before, {**before, name: factor * value}


def main(folder: str) -> None:
    """Mean errors and coverage of partial and universal, as they are and with each constant changed."""
    jobs = read_jobs(Path(folder)).jobs
    show("as they are", jobs)
    for module, name, before, after in constants():
        setattr(module, name, after)
        show(f"{name} = {after}", jobs)
        setattr(module, name, before)


def show(title: str, jobs: tuple[RecordedJob, ...]) -> None:
    """One line."""
    results, cells = run_models(jobs), []
    for mode in (Mode.PARTIAL, Mode.UNIVERSAL):
        found = results[mode].values()
        error = fmean(fmean(one.error for one in predicted) for predicted in found)
        held = fmean(one.covered for predicted in found for one in predicted)
        cells.append(f"{mode.value} {error:6.1%} {held:6.1%}")
    print("   ".join(cells), "  ", title, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
