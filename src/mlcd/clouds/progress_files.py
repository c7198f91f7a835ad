"""Progress of a task out of the files that its ranks write (see mlcd.worker for the format).

Each process of each rank is a stream of cumulative counts. The task's samples at a moment are the sum over all streams,
each read off between its two nearest lines; its steps are those of the rank that has done most.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlcd.core.progress import MetricPoint, Point, Progress, Saving
from mlcd.worker.trees import read_part

MOST_POINTS = 2000  # kept of a task; older ones are thinned
MOST_METRICS = 1000  # of one line
LONGEST_NAME = 200  # of a metric
PIECE_BYTES = 4 << 20  # of a file in memory at once
MOST_PIECES = 16  # of a file at one look; the rest comes with the next
_NOT_FINITE = ("nan", "inf", "-inf")
_MOST_SAVES = 100
_STALE_SECONDS = 15.0  # a stream silent for that long while others go on no longer holds them up


class ProgressReader:
    """Reads a folder of progress files again and again, each time only what is new in them."""

    def __init__(self, folder: Path, launched_at: float) -> None:
        self._folder = folder
        self._launched_at = launched_at
        self._offsets: dict[Path, int] = {}
        self._streams: dict[tuple[str, str], _Stream] = {}
        self._points: list[Point] = []
        self._metrics: list[MetricPoint] = []
        self._saving: Saving | None = None
        self._progress = Progress()
        self.saves: dict[float, float] = {}  # time of a file's change → samples of the whole job at that save

    def read(self) -> Progress:
        """Everything reported so far, oldest first. The usage is not in these files."""
        fresh = False
        for file in self._files():
            for line in self._new_lines(file):
                self._take(file.stem, line)
                fresh = True
        if fresh:
            self._merge()
            self._progress = Progress(tuple(self._points), tuple(self._metrics), alone=self._alone, saving=self._saving)
        return self._progress

    def _files(self) -> list[Path]:
        try:
            return sorted(self._folder.glob("rank-*.jsonl"))
        except OSError:
            return []

    def _new_lines(self, file: Path) -> Iterator[dict[str, Any]]:
        """The complete lines since the last reading; a torn last one is left for the next."""
        for _ in range(MOST_PIECES):
            offset = self._offsets.get(file, 0)
            data = read_part(file, offset, PIECE_BYTES)
            end = data.rfind(b"\n") + 1
            if end == 0 and len(data) == PIECE_BYTES:
                end = len(data)  # no line of ours is that long
            self._offsets[file] = offset + end
            yield from (line for raw in data[:end].splitlines() if (line := _parse(raw)) is not None)
            if len(data) < PIECE_BYTES:
                return

    def _take(self, rank: str, line: dict[str, Any]) -> None:
        seconds = max(0.0, line["t"] - self._launched_at)
        stream = self._streams.setdefault((rank, line["process"]), _Stream())
        stream.alone, stream.data = line["alone"], line["data"]
        stream.add(_CountAt(seconds, line["steps"], line["samples"]), ended=line["end"])
        if line["saved"] is not None:
            self.saves[line["saved"][0]] = line["saved"][1]
            self.saves = dict(list(self.saves.items())[-_MOST_SAVES:])
        self._saving = line["saving"] or self._saving
        step = line["steps"] if line["step"] is None else line["step"]
        for name, value in line["metrics"].items():
            self._metrics.append(MetricPoint(seconds, step, name, value))
        if len(self._metrics) > 2 * MOST_POINTS:
            self._metrics = thinned_metrics(self._metrics)

    def _merge(self) -> None:
        """Add the points up to the moment that all streams have reached."""
        last = self._points[-1].seconds if self._points else -1.0
        until = _reached(self._streams.values())
        moments = {k.seconds for s in self._streams.values() for k in s.knots if last < k.seconds <= until}
        for seconds in _spaced(sorted(moments), last, len(self._streams)):
            self._points.append(self._at(seconds))
        # A rank of which nothing was heard until the others had ended adds to the last point.
        if self._points:
            self._points[-1] = self._at(self._points[-1].seconds)
        for stream in self._streams.values():
            stream.forget_before(until)
        if len(self._points) > MOST_POINTS:
            self._points = thinned(self._points)

    @property
    def _alone(self) -> bool:
        """Whether all ranks train for themselves, or on the same samples."""
        return bool(self._streams) and (all(stream.alone for stream in self._streams.values()) or self._same_samples)

    @property
    def _same_samples(self) -> bool:
        """Whether several ranks trained on the very same samples in their first steps."""
        newest = {rank: stream.data for (rank, _), stream in self._streams.items()}
        return len(newest) > 1 and all(newest.values()) and len(set(newest.values())) == 1

    def _at(self, seconds: float) -> Point:
        """The sum of all ranks at a moment, or what the furthest did that train alone; never less than before."""
        steps: dict[str, float] = {}
        samples: dict[str, float] = {}
        for (rank, _), stream in self._streams.items():
            knot = stream.at(seconds)
            steps[rank] = steps.get(rank, 0.0) + knot.steps
            samples[rank] = samples.get(rank, 0.0) + knot.samples
        before = self._points[-1] if self._points else Point(0.0, 0.0, 0.0)
        most = math.floor(max(steps.values(), default=0.0) + 1e-6)
        done = max(samples.values(), default=0.0) if self._alone else sum(samples.values())
        return Point(seconds, max(before.steps, float(most)), max(before.samples, done))


@dataclass(frozen=True)
class _CountAt:
    """What a stream had counted at a moment."""

    seconds: float
    steps: float
    samples: float


@dataclass
class _Stream:
    """The counts of one process, from the last moment merged on."""

    knots: list[_CountAt] = field(default_factory=list)
    ended: bool = False
    alone: bool = False  # as its newest line says
    data: str = ""  # likewise: the digest of what it trained on first

    @property
    def last(self) -> float:
        return self.knots[-1].seconds

    def add(self, knot: _CountAt, ended: bool) -> None:
        """A newer count; time and counts never go back, even if a clock does."""
        if self.knots:
            last = self.knots[-1]
            knot = _CountAt(
                max(last.seconds, knot.seconds), max(last.steps, knot.steps), max(last.samples, knot.samples)
            )
        self.knots.append(knot)
        self.ended = self.ended or ended

    def at(self, seconds: float) -> _CountAt:
        """The counts at a moment: nothing before the first line, the last after it, straight lines between."""
        index = bisect_left(self.knots, seconds, key=lambda knot: knot.seconds)
        if index == len(self.knots):
            return self.knots[-1]
        right = self.knots[index]
        while index + 1 < len(self.knots) and self.knots[index + 1].seconds == seconds:
            index += 1
            right = self.knots[index]
        if right.seconds == seconds:
            return right
        if index == 0:
            return _CountAt(seconds, 0.0, 0.0)
        left = self.knots[index - 1]
        share = (seconds - left.seconds) / (right.seconds - left.seconds)
        return _CountAt(
            seconds,
            left.steps + share * (right.steps - left.steps),
            left.samples + share * (right.samples - left.samples),
        )

    def forget_before(self, seconds: float) -> None:
        """Drop what was merged, but for the knot from which the next line starts."""
        index = bisect_left(self.knots, seconds, key=lambda knot: knot.seconds)
        del self.knots[: max(0, min(index, len(self.knots)) - 1)]


def _reached(streams: Iterable[_Stream]) -> float:
    """The moment up to which every stream that still goes on has reported."""
    streams = list(streams)
    newest = max(stream.last for stream in streams)
    going = [s.last for s in streams if not s.ended and s.last > newest - _STALE_SECONDS]
    return min(going) if going else newest


def _spaced(moments: list[float], last: float, streams: int) -> list[float]:
    """With several ranks not every line of each makes a point: one about every half second will do, and the last."""
    if streams == 1:
        return moments
    kept: list[float] = []
    for moment in moments:
        if moment - last >= 0.4 or moment == moments[-1]:
            kept.append(moment)
            last = moment
    return kept


def thinned(points: list[Point]) -> list[Point]:
    """Every other point of the older half; the newer half as it is."""
    half = len(points) // 2
    return points[:half:2] + points[half:]


def thinned_metrics(metrics: list[MetricPoint]) -> list[MetricPoint]:
    """Every other older value of each metric, so that a rare one is not crowded out by a frequent one."""
    half = len(metrics) // 2
    seen: dict[str, int] = {}
    kept = []
    for point in metrics[:half]:
        seen[point.name] = seen.get(point.name, 0) + 1
        if seen[point.name] % 2:
            kept.append(point)
    return kept + metrics[half:]


def _parse(raw: bytes) -> dict[str, Any] | None:
    """A line with every field in its type, or None if it is torn or no such line."""
    try:
        line = json.loads(raw)
        step, saved, saving = line.get("step"), line.get("saved"), line.get("saving")
        return {
            "t": _finite(line["t"]),
            "steps": _finite(line["steps"]),
            "samples": _finite(line["samples"]),
            "step": None if step is None else _finite(step),
            "metrics": _numbers(line.get("metrics") or {}),
            "saved": None if saved is None else (_finite(saved[0]), _finite(saved[1])),
            "saving": None if saving is None else Saving(*map(_finite, saving)),
            "process": str(line.get("process", "")),
            "end": bool(line.get("end", False)),
            "alone": bool(line.get("alone", False)),
            "data": str(line.get("data", ""))[:LONGEST_NAME],
        }
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError):
        return None


def _finite(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{number} is not finite")
    return number


def _numbers(metrics: dict[str, Any]) -> dict[str, float]:
    """The values that are numbers; what is not finite comes as a word."""
    few = [(name, value) for name, value in metrics.items() if len(name) <= LONGEST_NAME][:MOST_METRICS]
    return {name: float(value) for name, value in few if isinstance(value, int | float) or value in _NOT_FINITE}
