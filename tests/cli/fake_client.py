"""A client that answers with prepared views and remembers what it was asked, and what a command gave."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import stories
from mlcd.core.jobfile import LoadedJob
from mlcd.core.machines import Offer
from mlcd.core.records import Event
from mlcd.core.task import Owned
from mlcd.core.view import Check, IncompleteSweepError, JobStory, JobView, Stray, SweepProblem
from mlcd.errors import MlcdError, NotFoundError
from mlcd.reporting import write_report


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)


Command = Callable[..., Done]


@dataclass
class FakeClient:
    """Follows through its acts one by one: each act is what one call of follow shows."""

    acts: list[Sequence[JobView]] = field(default_factory=lambda: [[stories.searching(), stories.planned()]])
    strays: list[Stray] = field(default_factory=list)
    sweep_problems: list[SweepProblem] = field(default_factory=list)
    notices: tuple[str, ...] = ()
    lines: tuple[str, ...] = ("step 1", "step 2")
    error: BaseException | None = None
    interrupt: bool = False
    calls: list[tuple[str, Any]] = field(default_factory=list)
    current: JobView = field(default_factory=stories.searching)

    def load(self, job: object, *, envs: Any = None, secrets: Any = None, overrides: Any = None) -> LoadedJob:
        self._called("load", {"job": job, "envs": envs, "secrets": secrets, "overrides": overrides})
        return LoadedJob(stories.job(), dict(secrets or {}), self.notices)

    def submit(self, loaded: LoadedJob, *, cloud: str | None = None, cloud_options: Any = None) -> str:
        self._called("submit", {"cloud": cloud, "options": cloud_options})
        return "j-7f3a"

    def start(self, job_id: str) -> None:
        self._called("start", job_id)

    def confirm(self, job_id: str) -> None:
        self._called("confirm", job_id)

    def follow(self, job_id: str) -> Iterator[JobView]:
        self._called("follow", job_id)
        for view in self.acts.pop(0):
            self.current = view
            yield view
            if self.interrupt:
                raise KeyboardInterrupt

    def view(self, job_id: str) -> JobView:
        self._called("view", job_id)
        if job_id != "j-7f3a":
            raise NotFoundError(f"No job is called '{job_id}'.", "Did you mean 'j-7f3a'?")
        return self.current

    def views(self) -> list[JobView]:
        return [stories.training(), stories.succeeded(), stories.searching()] if self.acts else []

    def story(self, job_id: str) -> JobStory:
        return stories.story(self.current)

    def events(self, job_id: str, after: int = 0) -> list[Event]:
        known = [event for event in stories.events() if event.number > after]
        return known[:3] if "follow" in self.names() else known

    def logs(self, job_id: str, *, follow: bool = False, node: int = 0, task: str | None = None) -> Iterator[str]:
        self._called("logs", {"follow": follow, "node": node, "task": task})
        yield from self.lines

    def stop(self, job_id: str) -> JobView:
        self._called("stop", job_id)
        return self.current

    def move(self, job_id: str, **place: Any) -> JobView:
        self._called("move", place)
        return self.current

    def resume(self, job_id: str, *, budget_usd: float | None = None, deadline: str | None = None) -> JobView:
        self._called("resume", {"budget_usd": budget_usd, "deadline": deadline})
        return self.current

    def report(self, job_id: str, path: Path | None = None) -> Path:
        return write_report(self.story(job_id), path or Path("report.html"))

    def offers(self, cloud: str | None = None, cloud_options: Mapping[str, str] | None = None) -> list[Offer]:
        self._called("offers", cloud)
        return list(stories.TYPES)

    def check(self, loaded: LoadedJob, *, cloud: str | None = None, cloud_options: Any = None) -> Check:
        self._called("check", cloud)
        seconds = tuple(600.0 for _ in stories.SPACE)
        usd = tuple(deployment.usd(600.0) for deployment in stories.SPACE)
        return Check(loaded.job, loaded.notices, stories.SPACE, seconds, usd)

    def sweep(self, *, end: bool = False, others: bool = False) -> list[Stray]:
        self._called("sweep", end)
        strays = [replace(stray, ended=end) for stray in self.strays]
        if self.sweep_problems:
            raise IncompleteSweepError(strays, self.sweep_problems)
        return strays

    def asked(self, name: str) -> Any:
        """What the last call of that name was given."""
        return next(given for called, given in reversed(self.calls) if called == name)

    def names(self) -> list[str]:
        """The calls in order."""
        return [name for name, _ in self.calls]

    def _called(self, name: str, given: Any) -> None:
        self.calls.append((name, given))
        if isinstance(self.error, MlcdError | ZeroDivisionError):
            raise self.error


def stray() -> Stray:
    """A forgotten process group."""
    return Stray("local", Owned("pg-77", "t9", "gone-1", "2 × local-2c", 0.0), "its job is not known here", ended=False)
