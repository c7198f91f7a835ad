"""Functions as a cloud: what is for sale, what it costs, and functions whose task nobody knows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from mlcd.clouds.tasks.cloud import RunnerCloud
from mlcd.clouds.tasks.files import Files, write_atomically
from mlcd.core.clock import Clock
from mlcd.core.job import Job
from mlcd.core.machines import Deployment, Offer
from mlcd.core.serial import to_json
from mlcd.core.study import ProbeTime
from mlcd.core.task import Charge, Handle, Owned, Task
from mlcd.errors import NoCapacityError
from mlcd.settings import Settings
from mlcd_functions.files import PLAN, Spec, State, TaskFiles
from mlcd_functions.lambdas import Lambdas, Listed, function_name, too_much_memory
from mlcd_functions.network_check import refuse_connecting_program, refuse_program
from mlcd_functions.offers import LARGEST_MB, MOST_FUNCTIONS, Terms, make_offers, memory_of
from mlcd_functions.prices import prices_of
from mlcd_functions.ranks import margin_seconds, tick_seconds
from mlcd_functions.settings import FunctionsSettings
from mlcd_functions.stores import bills_requests, check_writable, objects_url, refuse_storeless, rents_store

if TYPE_CHECKING:
    from mlcd_functions.rented.stores import RentedStores

COLD_START_SECONDS = 3.0  # a function with a handler; the program's own start comes on top
PROGRAM_START_SECONDS = 5.0
NEW_ACCOUNT_MB = 3008  # a function of that size may be had in every account
LIMIT_HOLDS_SECONDS = 24 * 3600.0  # an account's limit may be raised


class FunctionsCloud(RunnerCloud[Spec, State]):
    """Serverless functions. See mlcd.clouds.base.Cloud for what it promises."""

    name = "functions"
    life = "mlcd_functions.task:FunctionTask"
    files_kind = TaskFiles

    def __init__(self, settings: Settings, clock: Clock | None = None) -> None:
        super().__init__(settings.home, clock)
        self._all_settings = settings
        self._settings = settings.of(FunctionsSettings)
        self._rents = rents_store(self._settings)
        self.poll_seconds = 0.25 if not self._settings.endpoint else 5.0
        self._lambdas = Lambdas(self._settings, self.home)

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
            several_seconds=self._stores.start_seconds if self._rents else 0.0,
        )

    def refuse_program(self, job: Job, deployments: Sequence[Deployment]) -> None:
        """A program whose nodes connect with each other cannot train on several functions."""
        refuse_program(job, deployments)

    def launch(self, task: Task, deployment: Deployment, secrets: Mapping[str, str]) -> Handle:
        """Start a runner for the task, unless it ever had one that saw it to its end."""
        refuse_connecting_program(task, deployment, self._settings)
        return super().launch(task, deployment, secrets)

    def make_spec(self, task: Task, deployment: Deployment) -> Spec:
        """The settings are in a file of their own, for they may hold a password."""
        return Spec(task, deployment, str(self.home), self.clock.now())

    def prepare(
        self, files: Files[Spec, State], task: Task, deployment: Deployment, secrets: Mapping[str, str]
    ) -> None:
        """Secrets and settings, for each runner of the task, and what it rents between several functions."""
        self.home.chmod(0o700)  # instructions and settings hold passwords
        check_writable(objects_url(self._settings, self.home, task.id))
        if self._rents and deployment.nodes > 1:
            files.write_private(PLAN, to_json(self._stores.plan()))
        files.write_secrets(secrets)
        files.write_private("settings.json", to_json(self._settings))

    def refuse(self, deployment: Deployment) -> None:
        """More functions or memory than the account may have are not asked for."""
        if deployment.nodes > deployment.offer.max_nodes:
            raise NoCapacityError(
                f"{deployment} needs {deployment.nodes} functions; {deployment.offer.max_nodes} may run at once.",
                "Ask for fewer, or raise the settings functions.most and functions.concurrency.",
            )
        if deployment.nodes > 1:
            refuse_storeless(self._settings)
        self._check_memory(memory_of(deployment.offer))

    def owned(self) -> Iterable[Owned]:
        """Every task that has not ended, and every function whose task nobody knows."""
        known = [owned for files in self.all_files() if (owned := self._owned(files)) is not None]
        names = {function_name(owned.task_id) for owned in known}
        strays = [function for function in self._lambdas.ours() if function.name not in names]
        stores = self._stores.owned() if self._rents else ()
        return [*known, *(self._stray(function) for function in strays), *stores]

    @cached_property
    def _stores(self) -> RentedStores:
        from mlcd_functions.rented.stores import RentedStores  # the cloud ec2 takes long to import

        return RentedStores(self._all_settings, self._settings)

    def _terms(self, most: int) -> Terms:
        settings, prices = self._settings, prices_of(self._settings)
        if self._rents:
            prices = replace(prices, usd_per_store_hour=self._stores.list_usd_per_hour)

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

    def charges(self, spec: Spec, state: State, now: float) -> tuple[Charge, ...]:
        """The time of all functions, requests and stores, and, for information, what of the time went into starts."""
        deployment, prices = spec.deployment, prices_of(self._settings)
        seconds = state.seconds(now)
        usd = seconds * deployment.offer.usd_per_hour / 3600.0
        whole = max(0.0, now - (state.started_at if state.started_at is not None else now))
        shared = deployment.nodes > 1 and not state.stores
        store_usd = deployment.offer.store_usd_per_hour * whole / 3600.0 if shared else 0.0
        objects_usd = prices.objects_usd(*state.requests) if bills_requests(self._settings) else 0.0
        starting = f"of that, {state.starts} starts to the first step"
        return (
            Charge(f"{deployment.nodes} × {deployment.offer.name}", seconds / deployment.nodes, usd),
            Charge("requests", 0.0, prices.requests_usd(state.invocations)),
            *([Charge("requests to S3", 0.0, objects_usd)] if objects_usd else []),
            *([Charge("parameter store", whole, store_usd)] if store_usd else []),
            *([Charge(starting, state.init_seconds / deployment.nodes, 0.0)] if state.starts else []),
            *(self._stores.charges(state) if state.stores else ()),
        )

    def _owned(self, files: Files[Spec, State]) -> Owned | None:
        state = files.read_state()
        return None if state is not None and state.state.ended else self.owned_task(files)

    def _stray(self, function: Listed) -> Owned:
        what = f"function {function.name} ({function.memory_mb} MB) whose task nobody knows"
        return Owned(function.task_id or function.name, function.task_id, function.job_id, what, self.clock.now())

    def _stop_unknown(self, handle: Handle) -> None:
        """A function whose task left nothing here is removed, and the machine of a parameter store is given back."""
        if self._rents:
            self._stores.stop(handle)
        for function in self._lambdas.ours():
            if handle in (function.task_id, function.name):
                self._lambdas.delete(function.name)
