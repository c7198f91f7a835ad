"""The client of a server."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from mlcd.client import ClientProtocol
from mlcd.core.datasets import BUILTIN
from mlcd.core.jobfile import LoadedJob, job_to_dict
from mlcd.core.listing import JobLine, Lesson, LogPage, Page
from mlcd.core.machines import Offer
from mlcd.core.records import Event
from mlcd.core.run import JobState
from mlcd.core.serial import from_data
from mlcd.core.view import Check, IncompleteSweepError, JobStory, JobView, Stray, SweepProblem
from mlcd.remote.connection import Connection
from mlcd.remote.upload import upload_folder, upload_path
from mlcd.reporting.page import write_whole

_HERE = ("workdir", "file_mounts", "shard_mounts")  # keys that speak of files, which a check needs none of


class RemoteClient(ClientProtocol):
    """mlcd on a server."""

    poll_seconds = 0.5

    def __init__(self, url: str, token: str = "") -> None:
        self.connection = Connection(url, token)

    @cached_property
    def about(self) -> dict[str, Any]:
        """What the server is and knows."""
        return dict(self.connection.get("/about"))

    @property
    def default_cloud(self) -> str:
        """The cloud of the server's settings."""
        return str(self.about["cloud"])

    def close(self) -> None:
        """Nothing is held open."""

    def check(
        self, loaded: LoadedJob, *, cloud: str | None = None, cloud_options: Mapping[str, str] | None = None
    ) -> Check:
        """The deployments that the job would try; nothing is spent, and the code stays here."""
        job = {key: value for key, value in job_to_dict(loaded.job).items() if key not in _HERE}
        sent = self._submission(loaded, job, cloud, cloud_options)
        found = from_data(Check, self.connection.post("/check", sent))
        return replace(found, job=loaded.job, notices=loaded.notices)

    def submit(
        self, loaded: LoadedJob, *, cloud: str | None = None, cloud_options: Mapping[str, str] | None = None
    ) -> str:
        """Send the job with its folder; nothing is started and nothing spent. Gives its id."""
        job = job_to_dict(loaded.job)
        workdir, mounts = job.pop("workdir", ""), job.pop("file_mounts", {})
        job["file_mounts"] = {
            where: path if path.startswith(("s3://", BUILTIN)) else upload_path(self.connection, Path(path))
            for where, path in mounts.items()
        }
        sent = self._submission(loaded, job, cloud, cloud_options)
        sent["code"] = upload_folder(self.connection, Path(workdir)) if workdir else None
        return str(self.connection.post("/jobs", sent)["id"])

    def start(self, job_id: str) -> None:
        self.connection.post(f"/jobs/{job_id}/start", None)

    def confirm(self, job_id: str) -> None:
        self.connection.post(f"/jobs/{job_id}/confirm", None)

    def view(self, job_id: str) -> JobView:
        return self._view(self.connection.get(f"/jobs/{job_id}"))

    def views(self) -> list[JobView]:
        return [self._view(data) for data in self._pages("/views", limit=100)]

    def lines(
        self,
        *,
        states: Collection[JobState] | None = None,
        words: str = "",
        cursor: str | None = None,
        limit: int = 50,
    ) -> Page[JobLine]:
        state = None if states is None else [each.value for each in states]
        found = self.connection.get("/jobs", state=state, q=words, cursor=cursor, limit=limit)
        return Page([from_data(JobLine, item) for item in found["items"]], found["next"])

    def story(self, job_id: str) -> JobStory:
        story = from_data(JobStory, self.connection.get(f"/jobs/{job_id}/story"))
        return replace(story, view=self._here(story.view))

    def events(self, job_id: str, after: int = 0) -> list[Event]:
        found: list[Event] = []
        place: int | None = after
        while place is not None:
            page = self.connection.get(f"/jobs/{job_id}/events", after=place, limit=500)
            found += [from_data(Event, item) for item in page["items"]]
            place = None if page["next"] is None else int(page["next"])
        return found

    def log_page(self, job_id: str, *, after: int = 0, node: int = 0, task: str | None = None) -> LogPage:
        return from_data(LogPage, self.connection.get(f"/jobs/{job_id}/logs", after=after, node=node, task=task))

    def stop(self, job_id: str) -> JobView:
        return self._view(self.connection.post(f"/jobs/{job_id}/stop", None))

    def resume(self, job_id: str, *, budget_usd: float | None = None, deadline: str | None = None) -> JobView:
        limits = {"budget_usd": budget_usd, "deadline": deadline}
        return self._view(self.connection.post(f"/jobs/{job_id}/resume", limits))

    def move(
        self,
        job_id: str,
        *,
        instance: str | None = None,
        nodes: int | None = None,
        batch_size: int | None = None,
    ) -> JobView:
        place = {"instance": instance, "nodes": nodes, "batch_size": batch_size}
        return self._view(self.connection.post(f"/jobs/{job_id}/move", place))

    def report(self, job_id: str, path: Path | None = None) -> Path:
        page = self.connection.text(f"/jobs/{job_id}/report")
        return write_whole(path or Path(f"mlcd-report-{self.view(job_id).record.id}.html"), page)

    def model(self, job_id: str) -> Iterator[bytes]:
        return self.connection.pieces(f"/jobs/{job_id}/model")

    def predict(self, job_id: str, inputs: Any, *, dtype: str = "float32") -> Any:
        return self.connection.post(f"/models/{job_id}/predict", {"inputs": inputs, "dtype": dtype})["outputs"]

    def lessons(self, *, cursor: str | None = None, limit: int = 50) -> Page[Lesson]:
        found = self.connection.get("/history", cursor=cursor, limit=limit)
        return Page([from_data(Lesson, item) for item in found["items"]], found["next"])

    def offers(self, cloud: str | None = None, cloud_options: Mapping[str, str] | None = None) -> list[Offer]:
        options = self._options(cloud_options)
        if options:
            found = self.connection.post("/offers", {"cloud": cloud, "options": options})
        else:
            found = self.connection.get("/offers", cloud=cloud)
        return [from_data(Offer, item) for item in found["items"]]

    def sweep(self, *, end: bool = False, others: bool = False) -> list[Stray]:
        found = self.connection.post("/sweep", {"end": end, "others": others})
        strays = [from_data(Stray, item) for item in found["items"]]
        if found["problems"]:
            raise IncompleteSweepError(strays, [from_data(SweepProblem, item) for item in found["problems"]])
        return strays

    def _submission(
        self, loaded: LoadedJob, job: dict[str, Any], cloud: str | None, options: Mapping[str, str] | None
    ) -> dict[str, Any]:
        return {
            "job": job,
            "secrets": dict(loaded.secrets),
            "cloud": cloud,
            "cloud_options": self._options(options),
        }

    def _options(self, options: Mapping[str, str] | None) -> dict[str, str]:
        """The options with what was sent in the place of paths."""
        given = dict(options or {})
        if "trace" in given:
            given["trace"] = upload_path(self.connection, Path(given["trace"]).expanduser().absolute())
        return given

    def _pages(self, path: str, **query: Any) -> Iterator[Any]:
        cursor = None
        while True:
            page = self.connection.get(path, cursor=cursor, **query)
            yield from page["items"]
            cursor = page["next"]
            if cursor is None:
                return

    def _view(self, data: Any) -> JobView:
        return self._here(from_data(JobView, data))

    def _here(self, view: JobView) -> JobView:
        """The view with an address in the place of the server's folder."""
        return replace(view, model=f"{self.connection.url}/api/v1/jobs/{view.record.id}/model") if view.model else view
