"""Brings home what the functions have left in the object store: logs, progress, checkpoints, outputs."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mlcd.clouds.checkpoints import is_here, prune
from mlcd.clouds.received import MOST_NAMES, inside, is_checkpoint, room
from mlcd.core.task import TaskFolder
from mlcd.worker import checkpoints
from mlcd_functions.files import Count, Invocation, State
from mlcd_functions.messages import NO_REPORT, Report, read_report, report_key
from mlcd_functions.objects.base import ObjectStore
from mlcd_functions.objects.errors import ObjectNotFound, ObjectTooLarge
from mlcd_functions.workspace import fetch_checkpoint

_MOST_REPORTS = 50  # of one function in one go
_MOST_REPORT_BYTES = 32 << 20


@dataclass(frozen=True)
class Collector:
    """Where things go on this computer."""

    folder: TaskFolder
    checkpoints: Path
    keep: int

    def take(self, state: State, invocation: Invocation, report: Report) -> State:
        """Write a report's log and progress, and give the state that knows of it."""
        if report.log:
            with self.folder.log(invocation.rank).open("a") as log:
                log.write(report.log)
        late = report.generation not in (
            0,
            state.generation,
        )  # of a program that is done again: counted no more
        lines, state = shifted("" if late else report.progress, invocation.rank, state)
        if lines:
            with (self.folder.progress / f"rank-{invocation.rank}.jsonl").open("a") as file:
                file.write(lines)
        return state

    def sizes(self) -> dict[str, int]:
        """How long each log and progress file is."""
        root = self.folder.root
        files = (path for place in (self.folder.log().parent, self.folder.progress) for path in place.glob("*"))
        return {str(path.relative_to(root)): path.stat().st_size for path in files if path.is_file()}

    def cut_back(self, sizes: Mapping[str, int]) -> None:
        """Take off what was written after these sizes were noted: its reports will be read and written once more."""
        for name, size in sizes.items():
            path = self.folder.root / name
            if path.is_file() and path.stat().st_size > size:
                os.truncate(path, size)

    def close_streams(self, state: State, now: float) -> None:
        """Say that the programs of a generation count no further: a killed one could not say it, and would be waited for."""
        for rank, count in enumerate(state.counts):
            if count.process:
                line = {"t": now, "steps": count.steps, "samples": count.samples, "process": count.process}
                with (self.folder.progress / f"rank-{rank}.jsonl").open("a") as file:
                    file.write(json.dumps({**line, "end": True}) + "\n")

    def fetch(self, objects: ObjectStore, name: str) -> bool:
        """Bring a checkpoint home; whether it is here now, in one piece."""
        if not is_checkpoint(name):
            return False
        if is_here(self.checkpoints, name):
            return True
        if fetch_checkpoint(objects, name, self.checkpoints, room(self.checkpoints)) is None:
            return False
        prune(self.checkpoints, self.keep)
        return True

    def fetch_outputs(self, objects: ObjectStore) -> None:
        """Bring home what the program hands back."""
        for key in objects.keys("outputs/")[:MOST_NAMES]:
            target = inside(self.folder.outputs, key.removeprefix("outputs/"))
            target.parent.mkdir(parents=True, exist_ok=True)
            objects.download(key, target, room(target.parent))


def new_reports(objects: ObjectStore, invocation: Invocation) -> list[Report]:
    """What a function has reported since the last time."""
    reports: list[Report] = []
    try:
        while len(reports) < _MOST_REPORTS:
            key = report_key(invocation.rank, invocation.invocation_id, invocation.reports + len(reports))
            reports.append(_checked(_read(objects, key), time.time()))
    except ObjectNotFound:
        pass
    return reports


def _read(objects: ObjectStore, key: str) -> Report:
    try:
        return read_report(objects.get(key, _MOST_REPORT_BYTES))
    except ObjectTooLarge:
        return NO_REPORT


def _checked(report: Report, now: float) -> Report:
    """A report whose times are not to come: the bill and who counts as lost are made of them."""
    return replace(
        report,
        at=min(report.at, now) if report.at > 0 else now,
        began_at=_no_later(report.began_at, now),
        running_at=_no_later(report.running_at, now),
    )


def _no_later(moment: float | None, now: float) -> float | None:
    return None if moment is None else min(moment, now)


def newest_shipped(objects: ObjectStore) -> str:
    """The newest checkpoint of which all is in the object store; empty: none."""
    ending = f"/{checkpoints.MANIFEST}"
    found = [key.split("/")[1] for key in objects.keys("checkpoints/") if key.endswith(ending)]
    names = [name for name in found if is_checkpoint(name)]
    return max(names, default="", key=lambda name: int(name.split("-")[0]))


def shifted(progress: str, rank: int, state: State) -> tuple[str, State]:
    """Progress lines less what had been counted before a restart and is done again.

    Counts of a task never go back. After a restart from a checkpoint the same steps come once more; they count from
    where the programs had got to, so that the samples of the task are those that went into the model.
    """
    lines: list[str] = []
    for text in progress.splitlines():
        line, count = _parsed(text), state.count_of(rank)
        if line is None or line.get("process") == count.past != "":
            continue
        line["samples"] = max(0.0, line["samples"] - count.lost_samples)
        line["steps"] = max(0.0, line["steps"] - count.lost_steps)
        process = str(line.get("process", ""))
        counted = replace(count, samples=line["samples"], steps=line["steps"], process=process)
        state = state.with_count(rank, counted)
        lines.append(json.dumps(line) + "\n")
    return "".join(lines), state


def restarted(state: State, ranks: int, samples: float) -> State:
    """The counts of a generation that begins after so many samples of this task, by all ranks together."""
    for rank in range(ranks):
        count = state.count_of(rank)
        before_samples = count.before_samples + count.samples
        before_steps = count.before_steps + count.steps
        lost_samples = before_samples - samples / ranks
        per_sample = before_steps / before_samples if before_samples else 0.0
        fresh = Count(before_samples, before_steps, lost_samples, round(lost_samples * per_sample))
        state = state.with_count(rank, replace(fresh, past=count.process or count.past))
    return state


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        line = json.loads(text)
        counts = {name: float(line[name]) for name in ("samples", "steps")}
        return {**line, **counts} if all(map(math.isfinite, counts.values())) else None
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
