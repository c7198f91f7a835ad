"""Launches, follows and stops tasks on functions, from any process, by the folders that they leave."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from mlcd.clouds.functions.files import Spec, State, TaskFiles, task_files
from mlcd.clouds.functions.lambdas import Lambdas, Listed, function_name, too_much_memory
from mlcd.clouds.functions.launching import ensure_scheduler
from mlcd.clouds.functions.offers import LARGEST_MB, MOST_FUNCTIONS, Terms, make_offers, memory_of
from mlcd.clouds.functions.prices import prices_of
from mlcd.clouds.functions.ranks import margin_seconds, tick_seconds
from mlcd.clouds.functions.reaching import refuse_connecting_program
from mlcd.clouds.functions.settings import FunctionsSettings
from mlcd.clouds.functions.stores import bills_requests, check_writable, objects_url
from mlcd.clouds.tasks.files import working_folder, write_atomically
from mlcd.clouds.tasks.processes import alive
from mlcd.clouds.tasks.telling import Narrator
from mlcd.core.clock import Clock, SystemClock
from mlcd.core.machines import Deployment, Offer
from mlcd.core.study import ProbeTime
from mlcd.core.task import Charge, Handle, Owned, Task, TaskState, TaskStatus
from mlcd.errors import CloudError, NoCapacityError
from mlcd.settings import Settings

COLD_START_SECONDS = 3.0  # a function with a handler; the program's own start comes on top
PROGRAM_START_SECONDS = 5.0
NEW_ACCOUNT_MB = 3008  # a function of that size may be had in every account
LIMIT_HOLDS_SECONDS = 24 * 3600.0  # an account's limit may be raised


class FunctionsCloud:
    """Serverless functions. See mlcd.clouds.base.Cloud for what it promises."""

    name = "functions"
    start_seconds: float | None = None  # that depends on the program alone

    def __init__(self, settings: Settings, clock: Clock | None = None) -> None:
        self.clock: Clock = clock or SystemClock()
        self._settings = settings.of(FunctionsSettings)
        self.home = settings.home.absolute() / "functions"
        self.ending_seconds = 0.0
        self.poll_seconds = 0.25 if not self._settings.endpoint else 5.0
        self._lambdas = Lambdas(self._settings, self.home)
        self._narrator = Narrator()

    def offers(self) -> Sequence[Offer]:
        """Every memory size, as many functions as a task may have."""
        most = min(self._settings.most, MOST_FUNCTIONS, self._settings.concurrency)
        return list(make_offers(self._terms(most)))

    def expected_probe(self, measuring_seconds: float) -> ProbeTime:
        """A cold start, the program's start, unknown as yet, and the measuring."""
        return ProbeTime(
            COLD_START_SECONDS + PROGRAM_START_SECONDS + measuring_seconds,
            step_seconds=1.0,
            nodes_per_step=10,
        )

    def launch(self, task: Task, deployment: Deployment, secrets: Mapping[str, str]) -> Handle:
        """Start a scheduler for the task, unless it ever had one that saw it to its end."""
        _check_capacity(deployment)
        refuse_connecting_program(task, deployment, self._settings)
        self._check_memory(memory_of(deployment.offer))
        files = task_files(self.home, task.id)
        try:
            self.home.mkdir(mode=0o700, parents=True, exist_ok=True)  # orders and settings hold passwords
            files.root.mkdir(parents=True, exist_ok=True)
            if files.read_spec() is None:
                check_writable(objects_url(self._settings, self.home, task.id))
                working_folder(task, files).root.mkdir(parents=True, exist_ok=True)
                files.write_secrets(secrets)
                files.write_settings(self._settings)
                files.write_spec(Spec(task, deployment, str(self.home), self.clock.now()))
            ensure_scheduler(files)
        except OSError as error:
            raise CloudError(f"Task {task.id} cannot be started: {error}", "Is the disk full?") from error
        return task.id

    def status(self, handle: Handle) -> TaskStatus:
        """What the scheduler wrote last; one that has died is replaced, and the task goes on."""
        files = task_files(self.home, handle)
        spec = self._narrator.asked(files)
        if spec is None:
            return TaskStatus(TaskState.LOST, reason="nothing is known of it on this computer")
        state = files.read_state()
        if state is None or not (state.state.ended or alive(state.pid, state.birth)):
            ensure_scheduler(files)
            state = files.read_state() or state
        return TaskStatus(TaskState.STARTING) if state is None else self._tell(files, spec, state)

    def stop(self, handle: Handle) -> None:
        """Ask the scheduler to end it; where it has died, another does."""
        files = task_files(self.home, handle)
        state = files.read_state()
        if not files.root.is_dir():
            self._stop_unknown(handle)
            return
        if state is not None and state.state.ended:
            return
        with suppress(OSError):  # a full disk: the signal says the same
            files.stop.touch()
        if state is not None and alive(state.pid, state.birth):
            with suppress(ProcessLookupError):
                os.kill(state.pid, signal.SIGTERM)
        elif files.read_spec() is not None:
            ensure_scheduler(files)

    def owned(self) -> Iterable[Owned]:
        """Every task that has not ended, and every function whose task nobody knows."""
        tasks = self.home / "tasks"
        folders = sorted(tasks.iterdir()) if tasks.is_dir() else []
        known = [owned for folder in folders if (owned := self._owned(TaskFiles(folder))) is not None]
        names = {function_name(owned.task_id) for owned in known}
        strays = [function for function in self._lambdas.ours() if function.name not in names]
        return [*known, *(self._stray(function) for function in strays)]

    def close(self) -> None:
        """Nothing to let go of; what runs goes on."""

    def _terms(self, most: int) -> Terms:
        settings, prices = self._settings, prices_of(self._settings)

        def extras_usd_per_hour(memory_mb: int) -> float:
            reports = prices.reports_usd_per_hour(tick_seconds(settings, memory_mb))
            return (reports if bills_requests(settings) else 0.0) + prices.disk_usd_per_hour(settings.disk_mb)

        return Terms(
            region=settings.region if settings.endpoint else "",
            prices=prices,
            most=most,
            extras_usd_per_hour=extras_usd_per_hour,
            lifetime_seconds=settings.duration_seconds - margin_seconds(settings),
            most_memory_mb=self._known_limit() or LARGEST_MB,
        )

    def _check_memory(self, memory_mb: int) -> None:
        """Refuse a function that the account may not have, before anything is uploaded or paid for."""
        if not self._settings.endpoint or memory_mb <= NEW_ACCOUNT_MB:
            return
        limit = self._known_limit()
        if limit is None:
            limit = self._lambdas.memory_limit()
            self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(self._limit_file, str(limit))
        if memory_mb > limit:
            raise too_much_memory(memory_mb, limit)

    def _known_limit(self) -> int | None:
        """What the account said lately; None: it was not asked, or long ago."""
        try:
            asked_at = self._limit_file.stat().st_mtime
            limit = int(self._limit_file.read_text())
        except (OSError, ValueError):
            return None
        return limit if self.clock.now() - asked_at < LIMIT_HOLDS_SECONDS else None

    @property
    def _limit_file(self) -> Path:
        return self.home / f"memory-limit-{self._settings.region}"

    def _tell(self, files: TaskFiles, spec: Spec, state: State) -> TaskStatus:
        charges = self._charges(spec.deployment, state)
        told = self._narrator.tell(spec, working_folder(spec.task, files), state, charges)
        return replace(told, notes=state.notes, refused=state.refused, hint=state.hint)

    def _charges(self, deployment: Deployment, state: State) -> tuple[Charge, ...]:
        """The time of all functions, requests and stores, and, for information, what of the time went into starts."""
        if state.started_at is None:
            return ()
        now, prices = self.clock.now(), prices_of(self._settings)
        seconds = state.seconds(now)
        usd = seconds * deployment.offer.usd_per_hour / 3600.0
        whole = max(0.0, (state.ended_at if state.ended_at is not None else now) - state.started_at)
        store_usd = deployment.offer.store_usd_per_hour * whole / 3600.0
        objects_usd = prices.objects_usd(*state.requests) if bills_requests(self._settings) else 0.0
        starting = f"of that, {state.starts} starts to the first step"
        return (
            Charge(f"{deployment.nodes} × {deployment.offer.name}", seconds / deployment.nodes, usd),
            Charge("requests", 0.0, prices.requests_usd(state.invocations)),
            *([Charge("requests to S3", 0.0, objects_usd)] if objects_usd else []),
            *([Charge("parameter store", whole, store_usd)] if deployment.nodes > 1 and store_usd else []),
            *([Charge(starting, state.init_seconds / deployment.nodes, 0.0)] if state.starts else []),
        )

    def _owned(self, files: TaskFiles) -> Owned | None:
        spec, state = self._narrator.asked(files), files.read_state()
        if spec is None or (state is not None and state.state.ended):
            return None
        since = state.started_at if state is not None and state.started_at is not None else spec.launched_at
        return Owned(files.id, spec.task.id, spec.task.job_id, str(spec.deployment), since, spec.deployment)

    def _stray(self, function: Listed) -> Owned:
        what = f"function {function.name} ({function.memory_mb} MB) whose task nobody knows"
        return Owned(
            function.task_id or function.name, function.task_id, function.job_id, what, self.clock.now()
        )

    def _stop_unknown(self, handle: Handle) -> None:
        """A function whose task left nothing here is removed."""
        for function in self._lambdas.ours():
            if handle in (function.task_id, function.name):
                self._lambdas.delete(function.name)


def _check_capacity(deployment: Deployment) -> None:
    if deployment.nodes > deployment.offer.max_nodes:
        raise NoCapacityError(
            f"{deployment} needs {deployment.nodes} functions; {deployment.offer.max_nodes} may run at once.",
            "Ask for fewer, or raise the settings functions.most and functions.concurrency.",
        )
