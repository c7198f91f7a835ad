"""What runs in every function: the same package here and on AWS.

    fetch code → setup → ┌ checkpoint → program → until it ends, its time is nearly up, or instructions change ┐ → last report
                         └───────────────── a newer generation: start anew, in the same invocation ──────┘

A program that is asked to end (SIGTERM) agrees with the other ranks on a step, saves, and ends; see mlcd.worker. What it
has committed is in the object store before the function returns.
"""

from __future__ import annotations

import math
import os
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from mlcd.clouds.checkpoints import Trained
from mlcd.clouds.progress_files import ProgressReader
from mlcd.clouds.tasks.meter import NodeMeter
from mlcd.clouds.tasks.node import follow
from mlcd.clouds.tasks.programs import Program
from mlcd.core.progress import NodeUsage
from mlcd.worker import checkpoints
from mlcd_functions.counted_objects import CountedObjects
from mlcd_functions.messages import INSTRUCTIONS, Event, Instructions, read_event, read_instructions
from mlcd_functions.objects.base import open_object_store
from mlcd_functions.objects.errors import ObjectError, ObjectNotFound
from mlcd_functions.program import FunctionProgram
from mlcd_functions.reporter import Reporter
from mlcd_functions.workspace import Workspace, open_workspace, ship_checkpoint

LOOK_SECONDS = 0.05
LATE_SECONDS = 2.0  # after a report of that much later the program tells no more of a save
AWAITING_SHARE = 0.2  # of a tick, between two looks for new instructions: each is a request that costs money
AWAY_SECONDS = 60.0  # that the object store may be without instructions while the program runs
SAVE_SHARE = 0.6  # of the margin is the program's, to save; the rest is for bringing it home


def handle(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Lambda's way in: one function's part of a task, for as long as it may last."""
    began_at = _began_at()
    given = read_event(event)
    up_at = time.time() + context.get_remaining_time_in_millis() / 1000
    objects = CountedObjects(open_object_store(given.objects))
    return Worker(given, objects, open_workspace(given), began_at, up_at).run()


def _began_at() -> float:
    """Since when this invocation is billed: a cold one since its process was started, a warm one from now on."""
    global _started_at
    began_at, _started_at = _started_at or time.time(), None
    return began_at


def _process_start() -> float:
    """When this process began, or up to a tick later: a task must not end before its time limit."""
    ticks = 1 + int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    return time.time() - max(0.0, age)


_started_at: float | None = _process_start()


class Worker:
    """One invocation for one rank."""

    def __init__(
        self, event: Event, objects: CountedObjects, workspace: Workspace, began_at: float, up_at: float
    ) -> None:
        self._event = event
        self._objects = objects
        self._space = workspace
        self._up_at = up_at
        self._limit_at = math.inf if event.limit_seconds is None else began_at + event.limit_seconds
        self._program = FunctionProgram(workspace.code, workspace.log)
        self._meter = NodeMeter(event.cores)
        self._generation = 0
        self._shipped = ""
        self._instructions = Instructions()
        self._instructions_at = -math.inf
        self._missed_at = math.inf
        progress = workspace.progress / f"rank-{event.rank}.jsonl"
        self._reporter = Reporter(objects, event, workspace.log, progress, self._usage)
        self._reporter.tell(began_at=began_at)

    def _usage(self) -> NodeUsage:
        return self._meter.sample(time.monotonic(), self._program.family())

    def run(self) -> dict[str, Any]:
        """Do it, whatever happens, and say how it went."""
        problem = ""
        try:
            self._reporter.start()
            self._prepare()
            self._work()
        except ObjectError as error:
            problem = f"the object store failed: {error.message}"
        except OSError as error:
            problem = f"the function could not go on: {error}"
        finally:
            if self._program.roots and self._program.code is None:
                self._program.kill()
        return self._final_report(problem)

    def _prepare(self) -> None:
        self._space.fetch(self._objects)
        if self._space.needs_setup():
            self._reporter.tell(phase="setup")
            self._start(self._event.setup, Instructions())
            self._follow()
            if self._program.code == 0:
                self._space.note_setup()

    def _work(self) -> None:
        """Run the program, and again with every newer generation."""
        if self._program.code or self._program.asked:
            return  # the setup did not go well
        self._read_instructions()
        while not self._instructions.end and self._instructions.follows(self._event):
            self._begin()
            self._follow()
            if self._program.asked or not self._await_new_instructions():
                return

    def _begin(self) -> None:
        instructions, space = self._instructions, self._space
        self._generation = instructions.generation
        self._shipped = instructions.checkpoint
        space.place_checkpoint(self._objects, instructions.checkpoint)
        self._program.restore(space.checkpoints, self._event.checkpoint_path)
        self._reporter.next_program(instructions.generation)
        self._start(self._event.run, instructions)
        self._watch_checkpoints()
        self._reporter.tell(
            phase="running",
            generation=instructions.generation,
            running_at=self._program.started_at,
            exit_code=None,
            sync_error="",
            missing="",
        )

    def _start(self, command: str, instructions: Instructions) -> None:
        env = {
            **self._space.environment(),
            "MLCD_SAMPLES_BEFORE": f"{instructions.samples_before:.0f}",
            "MLCD_SYNC_TASK": self._event.task_id,
            "MLCD_SYNC_GENERATION": str(instructions.generation),
            "MLCD_SYNC_TIMEOUT": f"{instructions.sync_timeout:g}",
            "MLCD_SYNC_SIGN": str(self._space.sync_sign),
            **({"MLCD_SYNC_URL": instructions.sync_url} if instructions.sync_url else {}),
        }
        self._space.sync_sign.unlink(missing_ok=True)
        self._program.run(Program(command, env))

    def _follow(self) -> None:
        """Until the program has ended, or has been ended for a newer generation."""
        follow([self._program], self._tick)

    def _tick(self) -> None:
        """A program that was asked to end goes on being heard: what it saves comes home, and a newer generation ends it."""
        self._program.end_if_late()
        self._heed_time(self._program)
        self._heed_instructions(self._program)
        self._ship()
        time.sleep(LOOK_SECONDS)

    def _heed_time(self, program: FunctionProgram) -> None:
        now, margin = time.time(), self._event.margin_seconds
        if now > self._up_at - margin:
            program.ask_to_end("time", SAVE_SHARE * (self._up_at - now))
        if now > self._limit_at:
            program.ask_to_end("limit", self._event.grace_seconds)

    def _heed_instructions(self, program: FunctionProgram) -> None:
        if time.monotonic() - self._instructions_at < self._event.tick_seconds:
            return
        with suppress(ObjectError):  # the store is away for a moment: what was ordered last holds
            self._read_instructions()
        instructions = self._instructions
        if instructions.end:
            program.ask_to_end("stop", self._event.grace_seconds)
        elif not instructions.follows(self._event):
            program.asked = "replaced"
            program.kill()
        elif instructions.generation > self._generation and self._generation:
            program.kill()

    def _await_new_instructions(self) -> bool:
        """Whether a newer generation begins; one that failed waits a while for it."""
        if self._program.code == 0:
            return False
        self._reporter.tell(phase="failed", exit_code=self._program.code, **self._space.read_sync_sign())
        self._reporter.deliver()
        give_up_at = min(time.time() + self._event.linger_seconds, self._up_at - self._event.margin_seconds)
        while self._instructions.generation <= self._generation and not self._instructions.end:
            if time.time() > give_up_at:
                return False
            time.sleep(AWAITING_SHARE * self._event.tick_seconds)
            with suppress(ObjectError):
                self._read_instructions()
        return not self._instructions.end

    def _read_instructions(self) -> None:
        self._instructions_at = time.monotonic()
        try:
            self._instructions = read_instructions(self._objects.get(INSTRUCTIONS))
            self._missed_at = math.inf
        except ObjectNotFound:
            self._miss_instructions()

    def _miss_instructions(self) -> None:
        """Instructions are there before anything is invoked: without any the task is over, unless its store is away a while."""
        now = time.monotonic()
        self._missed_at = min(self._missed_at, now)
        if not self._generation or now - self._missed_at > AWAY_SECONDS:
            self._instructions = replace(self._instructions, end="the task is over")

    def _ship(self) -> None:
        """Bring home what the program has committed since the last look; the first rank does."""
        if self._event.rank != 0:
            return
        newest = next(iter(checkpoints.complete_checkpoints(self._space.checkpoints)), None)
        if newest is None or newest.path.name == self._shipped:
            return
        # Its log and progress up to there come home first: after a kill nobody would write them again.
        if not self._reporter.deliver():
            return
        with suppress(ObjectError, FileNotFoundError):  # tried again at the next look
            ship_checkpoint(self._objects, newest.path)
            self._shipped = newest.path.name
            self._reporter.tell(checkpoint=self._shipped)

    def _watch_checkpoints(self) -> None:
        """Commit what a program saves to a folder of its own; the first rank does."""
        event, space = self._event, self._space
        trained_at = _TrainedAt(space.progress, self._program.started_at, event, self._instructions)
        path = event.checkpoint_path if event.rank == 0 else ""
        self._program.watch(path, space.checkpoints, event.checkpoint_keep, trained_at, event.task_id)

    def _final_report(self, problem: str) -> dict[str, Any]:
        program = self._program
        try:
            program.finish_checkpoints(program.in_order, time.time())
            self._ship()
            if self._event.rank == 0 and self._generation:
                self._space.collect(self._objects, program)
        except ObjectError as error:
            problem = problem or f"the object store failed: {error.message}"
        patience = max(1.0, self._up_at - time.time() - 1.0)
        facts = {
            "phase": "ended",
            "exit_code": program.code,
            "asked": program.asked,
            "problem": problem,
            **self._space.read_sync_sign(),
        }
        self._reporter.finish(min(patience, 30.0), **facts)
        return {**facts, "generation": self._generation, "refused": self._reporter.refused}


class _TrainedAt:
    """Samples of the whole job at a moment: as the program tells them of a save, or this rank's times the ranks."""

    def __init__(self, progress: Path, started_at: float, event: Event, instructions: Instructions) -> None:
        self._reader = ProgressReader(progress, started_at)
        self._started_at = started_at
        self._ranks = float(event.envs.get("WORLD_SIZE") or 1)
        self._before = instructions.samples_before
        self._earlier = self._reader.read().samples  # by programs of older generations in this invocation

    def __call__(self, moment: float) -> Trained:
        points = self._reader.read().points
        if moment in self._reader.saves:
            return Trained(self._reader.saves[moment])
        done = [point.samples for point in points if self._started_at + point.seconds <= moment]
        ranks = 1.0 if self._reader.read().alone else self._ranks
        least = self._before + ranks * max(0.0, (done[-1] if done else 0.0) - self._earlier)
        return Trained(least, known=not points or self._started_at + points[-1].seconds > moment + LATE_SECONDS)
