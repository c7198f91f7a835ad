"""The functions that a training program calls: steps, report, checkpoint, checkpoint_due, last_checkpoint, stopping."""

from __future__ import annotations

import errno
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import mlcd.worker.checkpoints as checkpoints
import mlcd.worker.ranks as ranks
from mlcd.worker.counts import NOTHING
from mlcd.worker.guard import guard, log_error, log_once
from mlcd.worker.loop import Steps
from mlcd.worker.session import Session, current

T = TypeVar("T")

_FULL_DISK = (errno.ENOSPC, errno.EDQUOT)


def steps(loader: Iterable[T], prefetch: int = 0, *, ahead: int = 0) -> Steps[T]:
    """Iterate over the batches of a loader and count them; end early when the training should end (see `stopping`).

    A thread fetches up to `prefetch` batches while the program computes and exchanges gradients. `ahead` is its former name.
    """
    return Steps(loader, prefetch or ahead)


def report(step: float | None = None, samples: float | None = None, **metrics: Any) -> None:
    """Report metrics and, where mlcd does not count by itself, the steps and samples this process has done so far."""
    try:  # as @guard does, without its extra call: this may run at every step
        session = current()
        if session.active:
            session.report(step, samples, metrics)
    except Exception as error:  # the border to the user's training: nothing may pass
        log_error("report", error)


@guard(False)
def stopping() -> bool:
    """Whether to save and end: the work is done, the target is reached, or somebody asked for a stop."""
    session = current()
    session.stop.handle_sigterm()
    session.start()
    return session.stop.due()


@guard(False)
def checkpoint_due() -> bool:
    """Whether it is time to save: as often as pays by what a save takes and how often machines are lost.

    Ask after each step of the optimizer. Ranks that share a process group of torch, or TensorFlow's or JAX's service, are told after the
    same step; otherwise the first rank alone is told.
    """
    session = current()
    return session.active and session.save_point.due()


@guard(None)
def last_checkpoint() -> Path | None:
    """The folder of the newest complete checkpoint of this job, or None. Counting continues from there."""
    session = current()
    if session.env.checkpoint_dir is None:
        return None
    found = checkpoints.newest_intact(session.env.checkpoint_dir)
    facts = found.facts if found else checkpoints.Facts(samples=0.0)
    session.stop.samples_before = facts.samples
    session.steps_before = facts.steps
    session.count_after(facts.reported)
    session.metrics.update(facts.metrics)
    session.metrics_before = dict(facts.metrics)
    return found.path if found else None


@contextmanager
def checkpoint(step: float | None = None) -> Iterator[Path]:
    """A folder to write a checkpoint into; on leaving without an error it is committed.

    Only rank 0 commits: on other ranks, and outside mlcd, the folder is deleted afterwards. On a full disk this
    checkpoint is skipped and the training continues.
    """
    folder, began_at = _begin(), time.monotonic()
    try:
        yield folder
    except BaseException as error:  # do not keep half a checkpoint, also on Ctrl-C
        shutil.rmtree(folder, ignore_errors=True)
        if not _disk_is_full(error, folder):
            raise
        log_once("the disk is full: skipped a checkpoint, the training continues")
    else:
        _finish(folder, step, began_at)


def _begin() -> Path:
    session = current()
    root = session.env.checkpoint_dir
    try:
        if root is not None and _commits(session):
            return checkpoints.begin(root)
    except OSError as error:
        log_once(f"cannot write checkpoints: {error}")
    return _elsewhere()


def _elsewhere() -> Path:
    """A folder that is deleted afterwards; on a full disk, one in memory."""
    try:
        return Path(tempfile.mkdtemp(prefix="mlcd-"))
    except OSError:
        return Path(tempfile.mkdtemp(prefix="mlcd-", dir="/dev/shm"))  # made by mkdtemp


def _commits(session: Session) -> bool:
    return session.active and ranks.rank(session.env) == 0


def _finish(folder: Path, step: float | None, began_at: float) -> None:
    root = current().env.checkpoint_dir
    try:
        if root is not None and folder.parent == root:
            _commit(folder, root, step, began_at)
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # a committed one has another name by now


@guard(None)
def _commit(folder: Path, root: Path, step: float | None, began_at: float) -> None:
    session = current()
    checkpoints.commit(folder, facts_of(session, step))
    if session.env.checkpoint_keep:
        checkpoints.prune(root, session.env.checkpoint_keep)
    session.save_point.saving.saved(began_at)


def facts_of(session: Session, step: float | None = None) -> checkpoints.Facts:
    """What has been trained by now, as a checkpoint says it."""
    counts = session.counts
    reported = counts.reported or NOTHING
    before_step, before_samples = session.reported_before
    return checkpoints.Facts(
        samples=session.stop.total_samples(in_flight=True),
        steps=session.steps_before + counts.now.steps + (1 if counts.in_flight else 0),
        metrics=dict(session.metrics),
        task_id=session.env.task_id,
        reported=(
            float(step) if step is not None else before_step + reported.steps,
            before_samples + reported.samples,
        ),
    )


def _disk_is_full(error: BaseException, folder: Path) -> bool:
    """Whether this is why the program could not write; torch says it with a RuntimeError."""
    if isinstance(error, OSError):
        return error.errno in _FULL_DISK
    try:
        return isinstance(error, RuntimeError) and shutil.disk_usage(folder.parent).free < 1 << 20
    except OSError:
        return False
