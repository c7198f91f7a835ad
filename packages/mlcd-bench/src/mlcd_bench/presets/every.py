"""`mlcd bench --preset all`: every preset, several at a time, and which of the papers' claims hold.

    names ──a process for each core──▶ PresetResult | NotPlayed ──as each ends──▶ files, a line ──at the end──▶ summary

A process writes the files of a preset as soon as it has played it: what is done stays done when the rest is interrupted.
"""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlcd.errors import MlcdError, UserError
from mlcd_bench.output import write_file, write_json
from mlcd_bench.presets.preset import find_preset
from mlcd_bench.presets.runner import Finding, Findings, run_preset
from mlcd_bench.runner import end_with_parent, one_thread_each

LIBRARY = "plotly.min.js"  # once beside the pages; in each of them it would be 5 MB


@dataclass(frozen=True)
class Play:
    """How presets are played, and the folders for their findings and pages."""

    seeds: int
    out: Path | None = None
    html: Path | None = None


@dataclass(frozen=True)
class PresetResult:
    """A preset that was played."""

    name: str
    title: str
    seconds: float
    findings: Findings

    def claims(self, holds: bool | None) -> tuple[Finding, ...]:
        """Those that hold, those that do not, or those without a direction."""
        return tuple(each for each in self.findings.claims if each.holds is holds)

    @property
    def data(self) -> dict[str, Any]:
        """As JSON knows it."""
        counts = {"hold": len(self.claims(True)), "do_not_hold": len(self.claims(False))}
        return {"name": self.name, "title": self.title, "seconds": self.seconds, **counts, **self.findings.data}


@dataclass(frozen=True)
class NotPlayed:
    """A preset that could not be played, and why."""

    name: str
    seconds: float
    reason: str

    @property
    def data(self) -> dict[str, Any]:
        """As JSON knows it."""
        return {"name": self.name, "seconds": self.seconds, "reason": self.reason}


Outcome = PresetResult | NotPlayed
Played = Callable[[Outcome, int, int], None]  # a preset, how many are done, of how many


def make_folders(play: Play) -> None:
    """The folders to write into, before anything is played."""
    for option, folder in (("--out", play.out), ("--html", play.html)):
        if folder is None:
            continue
        if folder.exists() and not folder.is_dir():
            raise UserError(f"{folder} is a file.", f"With --preset all, {option} names a folder.")
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"{folder} cannot be made: {error.strerror}.") from error


def play_all(
    names: Sequence[str], play: Callable[[str], Outcome], jobs: int, played: Played | None = None
) -> tuple[Outcome, ...]:
    """Play these presets in so many processes; the outcomes in the order of the names."""
    found: dict[str, Outcome] = {}
    spawn = multiprocessing.get_context("spawn")
    with one_thread_each(), ProcessPoolExecutor(min(jobs, len(names)), spawn, _start_process) as pool:
        futures = [pool.submit(play, name) for name in names]
        try:
            for done, future in enumerate(as_completed(futures), start=1):
                outcome = future.result()
                found[outcome.name] = outcome
                if played is not None:
                    played(outcome, done, len(names))
        except BrokenProcessPool as error:
            hint = "There may have been too little memory: try --jobs 1."
            raise MlcdError("A process of the benchmark was ended from outside.", hint) from error
        except KeyboardInterrupt:
            for child in multiprocessing.active_children():  # the pool would wait for what they play
                child.terminate()
            raise
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    return tuple(found[name] for name in names)


def _start_process() -> None:
    """Of a pool: whoever interrupts the command interrupts the process that asks, which ends this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()


def play_one(play: Play, name: str) -> Outcome:
    """Play a preset in this process and write its files."""
    began = time.perf_counter()
    try:
        preset = find_preset(name)
        findings = run_preset(preset, play.seeds, jobs=0)
        if play.out is not None:
            write_json(play.out / f"{name}.json", findings.data)
        if play.html is not None:
            from mlcd_bench.page import preset_page

            write_file(play.html / f"{name}.html", preset_page(preset, findings, LIBRARY))
    except MlcdError as error:
        return NotPlayed(name, time.perf_counter() - began, str(error))
    return PresetResult(name, preset.title, time.perf_counter() - began, findings)
