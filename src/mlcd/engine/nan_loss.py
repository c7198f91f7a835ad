"""A loss that is nan or infinite: found in what a training shows, and its checkpoints put out of the way."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import isfinite
from pathlib import Path

from mlcd.core.job import Target
from mlcd.core.progress import MetricPoint, Progress
from mlcd.engine.tasks import carried_samples
from mlcd.errors import TaskFailedError
from mlcd.worker.checkpoints import Checkpoint, complete_checkpoints

# Of a loss that never had a number: `val_loss=nan` before the first validation means nothing.
LEAST_VALUES = 3
AFTER_NAN = "after-nan"  # where checkpoints of a broken state lie: nobody goes on from them, nobody deletes them
_KEPT = ".kept-"
_LOSS = re.compile(r"(?:^|[^a-z])(loss|nll|perplexity|ppl)(?:$|[^a-z])", re.IGNORECASE)


def nan_loss(progress: Progress, target: Target | None) -> MetricPoint | None:
    """The first of the newest values of a loss (or of the target's metric) that are nan or infinite; None: all is well."""
    newest = {point.name: point.value for point in progress.metrics}
    for name, value in newest.items():
        if not isfinite(value) and (_LOSS.search(name) or (target is not None and name == target.metric)):
            first = _first_of_the_end([point for point in progress.metrics if point.name == name])
            if first is not None:
                return first
    return None


def samples_before_nan(progress: Progress, lost: MetricPoint, samples_before: float) -> float:
    """Samples of the whole job from which on no state is to be trusted.

    Where the loss had no number since the attempt began, the checkpoint that it began from is not to be trusted either.
    """
    had_number = any(isfinite(point.value) for point in progress.metrics if point.name == lost.name)
    if not had_number:
        return samples_before
    done = [point.samples for point in progress.points if point.seconds <= lost.seconds]
    return samples_before + (done[-1] if done else 0.0)


@contextmanager
def only_checkpoints_before(root: Path, samples: float) -> Iterator[None]:
    """While the training is being stopped keep its newest checkpoint with fewer samples; then put away all later ones.

    A program that saves when it is stopped would have the good one pruned. Safe to do again after a kill.
    """
    saved = [each for each in complete_checkpoints(root) if not each.refused_by]
    before = [each for each in saved if each.facts.samples < samples]
    if before and not _kept(root):
        _link(before[0])
    yield
    for each in complete_checkpoints(root):
        if each.facts.samples >= samples:
            _put_away(each)
    for kept in _kept(root):
        _bring_back(kept)


def stopped_at_nan(job_id: str, folder: Path, told: str, log_tail: str) -> TaskFailedError:
    """What a job with `on_nan: stop` ends with, once the checkpoints from after it are put away."""
    saved = carried_samples(folder)
    place = f"from {saved:,.0f} samples, saved before" if saved > 0 else "from nothing: none was saved before"
    return TaskFailedError(
        f"The training was stopped: {told} (on_nan: stop).",
        f"Fix the program or its learning rate, then `mlcd resume {job_id}` goes on {place}.",
        log_tail,
    )


def _first_of_the_end(values: Sequence[MetricPoint]) -> MetricPoint | None:
    """Where the run of values that are no number begins, which lasts to the end."""
    numbers = [index for index, point in enumerate(values) if isfinite(point.value)]
    if not numbers and len(values) < LEAST_VALUES:
        return None
    return values[numbers[-1] + 1 if numbers else 0]


def _kept(root: Path) -> list[Path]:
    return sorted(root.glob(f"{_KEPT}*")) if root.is_dir() else []


def _link(checkpoint: Checkpoint) -> None:
    """A second name for every file, made whole before it counts."""
    path = checkpoint.path
    half = path.with_name(f".linking-{path.name}")
    shutil.rmtree(half, ignore_errors=True)
    shutil.copytree(path, half, symlinks=True, copy_function=_link_or_copy)
    half.rename(path.with_name(f"{_KEPT}{path.name}"))


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:  # a file system without links
        shutil.copy2(source, target, follow_symlinks=False)


def _put_away(checkpoint: Checkpoint) -> None:
    place = checkpoint.path.parent / AFTER_NAN / checkpoint.path.name
    place.parent.mkdir(exist_ok=True)
    shutil.rmtree(place, ignore_errors=True)
    checkpoint.path.rename(place)


def _bring_back(kept: Path) -> None:
    original = kept.with_name(kept.name.removeprefix(_KEPT))
    if original.exists():
        shutil.rmtree(kept, ignore_errors=True)
    else:
        kept.rename(original)
