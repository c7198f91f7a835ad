"""Progress of a task out of its log, for programs that report nothing themselves."""

from __future__ import annotations

import re
from dataclasses import replace
from heapq import merge
from math import isfinite
from pathlib import Path

from mlcd.clouds.log_patterns import Values, reader_for
from mlcd.clouds.progress_files import MOST_POINTS, thinned, thinned_metrics
from mlcd.core.progress import MetricPoint, Point, Progress
from mlcd.worker.trees import read_part

_MOST_BYTES = 8 << 20  # read at once; the rest comes with the next reading
_MOST_PIECES = 128  # read in the end: a file may say that it is longer than anyone can read
_COUNTS = ("step", "samples", "epoch")


class LogProgress:
    """Reads a growing log again and again, each time only what is new in it.

    A line's moment is that of its arrival: between the reading before and the time at which the file was last
    written to. Where many arrived in between (the reader was away), they are spread evenly over that time.
    """

    def __init__(
        self,
        log: Path,
        pattern: str,
        launched_at: float,
        samples_per_step: float = 0.0,  # of all ranks: the global batch size; 0: not known
        samples_per_epoch: float = 0.0,  # the size of the data set; 0: not known
        samples_before: float = 0.0,  # done by earlier attempts, from where the program may count on
    ) -> None:
        self._log = log
        self._read_lines = reader_for(pattern)
        self._launched_at = launched_at
        self._counter = _Counter(samples_per_step, samples_per_epoch, samples_before)
        self._offset = 0
        self._last = 0.0  # seconds, of the newest line read
        self._points: list[Point] = []
        self._metrics: list[MetricPoint] = []
        self._progress = Progress()

    def read(self, now: float, ended: bool = False) -> Progress:
        """Everything found in the log so far; of a program that ended in order, to the last letter."""
        for _ in range(_MOST_PIECES if ended else 1):
            lines, written_at = self._new_lines(ended)
            if not lines:
                break
            self._take(lines, min(now, written_at or now) - self._launched_at)
            self._progress = Progress(tuple(self._points), tuple(self._metrics))
        return self._progress

    def _new_lines(self, ended: bool) -> tuple[list[str], float]:
        """The lines completed since the last reading; a bar that is drawn over and over makes lines, too.

        The last line of a program that ended in order needs no end; of one that was killed it may be torn.
        """
        data = read_part(self._log, self._offset, _MOST_BYTES)
        try:
            written_at = self._log.lstat().st_mtime
        except OSError:
            return [], 0.0
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        whole = ended and len(data) < _MOST_BYTES
        if whole or (end == 0 and len(data) == _MOST_BYTES):
            end = len(data)  # no line is that long
        self._offset += end
        return [line for line in re.split(r"[\r\n]+", data[:end].decode(errors="replace")) if line], written_at

    def _take(self, lines: list[str], until: float) -> None:
        until = max(self._last, until)
        for index, values in enumerate(self._read_lines(lines), start=1):
            if values:
                self._add(values, self._last + (until - self._last) * index / len(lines))
        self._last = until
        if len(self._points) > MOST_POINTS:
            self._points = thinned(self._points)
        if len(self._metrics) > 2 * MOST_POINTS:
            self._metrics = thinned_metrics(self._metrics)

    def _add(self, found: Values, seconds: float) -> None:
        values = {name: value for name, value in found.items() if name not in _COUNTS or isfinite(value)}
        counted = self._counter.take(values)
        if counted is not None:
            self._points.append(Point(seconds, *counted))
        step = values.get("step", self._points[-1].steps if self._points else 0.0)
        self._metrics.extend(
            MetricPoint(seconds, step, name, value) for name, value in values.items() if name not in _COUNTS
        )


class _Counter:
    """Turns what a line says of step, samples and epoch into steps and samples since the task began."""

    def __init__(self, samples_per_step: float, samples_per_epoch: float, samples_before: float) -> None:
        self._per_step = samples_per_step
        self._per_epoch = samples_per_epoch
        self._before = samples_before
        self._resumed: bool | None = None  # whether the program counts on from an earlier attempt
        self._base = 0.0  # of counts that began again from zero, as step does in every epoch of some programs
        self._raw = 0.0
        self._first: int | None = None  # what the program calls its first step or epoch: 0 or 1
        self._steps = self._samples = 0.0

    def take(self, values: Values) -> tuple[float, float] | None:
        """Steps and samples now, or None if the line has no count."""
        name = next((name for name in ("samples", "step", "epoch") if name in values), None)
        if name is None:
            return None
        unit = {"samples": 1.0, "step": self._per_step or 1.0, "epoch": self._per_epoch or 1.0}[name]
        raw = values[name] + self._from_zero(name, values[name], unit)
        if raw < self._raw:
            self._base += self._raw
        self._raw = raw
        self._set(name, self._base + raw, unit)
        return self._steps, self._samples

    def _from_zero(self, name: str, raw: float, unit: float) -> int:
        """1 where the first is called 0: a line that says `epoch 0` tells that one epoch is done.

        A program that goes on from a checkpoint calls the next one by what was done before it. `0.0` is no name but
        a measure, as some programs give their epochs.
        """
        if name == "samples" or not isinstance(raw, int):
            return 0
        if self._first is None:
            goes_on = self._before > 0 and raw * unit == self._before
            self._first = 0 if raw == 0 or goes_on else 1
        return 1 - self._first

    def _set(self, name: str, count: float, unit: float) -> None:
        samples = count * unit
        if self._resumed is None:
            self._resumed = 0.0 < self._before <= samples
        samples -= self._before if self._resumed else 0.0
        self._samples = max(self._samples, samples)
        steps = self._samples / (self._per_step or 1.0) if name != "step" else self._samples / unit
        self._steps = max(self._steps, steps)


def combine(believed: Progress, other: Progress) -> Progress:
    """All that two sources know; of counts, and of metrics of the same name, those of the first."""
    known = {point.name for point in believed.metrics}
    added = [point for point in other.metrics if point.name not in known]
    return replace(
        believed,
        points=believed.points or other.points,
        metrics=tuple(merge(believed.metrics, added, key=lambda point: point.seconds)),
        alone=believed.alone or other.alone,
    )
