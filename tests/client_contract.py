"""The promises of mlcd.client.ClientProtocol as tests: subclass, give a fixture `client`, and run pytest.

    class TestMyClient(ClientContract):
        @pytest.fixture(scope="class")
        def client(self):
            return MyClient()

Its jobs run on the cloud `local` and on replayed recordings.
"""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import pytest

from mlcd.client import ClientProtocol
from mlcd.core.run import JobState
from mlcd.errors import GoalUnreachableError, InvalidJobError, NotFoundError, UserError

_TOY = {
    "name": "toy",
    "run": "python train.py",
    "num_nodes": "1..4",
    "work": {"samples": 2_000_000},
    "goal": "cheapest",
    "deadline": "6h",
}
_TRACE = """workload,instance,nodes,throughput,usd_per_node_hour,status
toy,slow,1,100,0.10,ok
toy,slow,2,190,0.10,ok
toy,slow,4,340,0.10,ok
toy,fast,1,400,0.90,ok
toy,fast,2,700,0.90,ok
toy,fast,4,,0.90,failed
"""
_PROGRAM = """
import json, os, pathlib, time
import mlcd

done = 0
for batch in mlcd.steps([[0] * 10] * (int(os.environ["MLCD_WORK_SAMPLES"]) // 10)):
    time.sleep(0.02)
    done += len(batch)
folder = pathlib.Path(os.environ["MLCD_OUTPUT_DIR"])
folder.mkdir(parents=True, exist_ok=True)
(folder / "model.json").write_text(json.dumps({"done": done}))
print("trained", done)
"""


class ClientContract:
    """What every client promises: a subclass has a fixture `client`, best of scope class."""

    @pytest.fixture
    def small(self, tmp_path: Path) -> dict[str, Any]:
        """A job of about two seconds on this computer, in a folder with junk and a data file."""
        code = tmp_path / "code"
        (code / "__pycache__").mkdir(parents=True)
        (code / "__pycache__" / "junk.pyc").write_text("junk")
        (code / "train.py").write_text(_PROGRAM)
        (tmp_path / "data.txt").write_text("mounted\n")
        return {
            "name": "small",
            "workdir": str(code),
            "setup": "cat data/rows.txt && ls . library && echo $WORD $KEY",
            "run": "python train.py",
            "envs": {"WORD": "hello"},
            "secrets": ["KEY"],
            "file_mounts": {"data/rows.txt": str(tmp_path / "data.txt"), "library": "builtin:python-library"},
            "work": {"samples": 500},
            "goal": "fastest",
            "search": "exhaustive",
            "resources": {"instance_type": "local-1c"},
            "probe": {"warmup_seconds": 0.1, "min_seconds": 0.3, "max_seconds": 2, "silent_seconds": 5},
            "checkpoint": {"grace_seconds": 2},
        }

    @pytest.fixture
    def replayed(self, tmp_path: Path) -> dict[str, Any]:
        """The options of a cloud that replays a recorded trace."""
        trace = tmp_path / "trace.csv"
        trace.write_text(_TRACE)
        return {"cloud": "replay", "cloud_options": {"trace": str(trace), "workload": "toy"}}

    def test_a_local_job_goes_from_mapping_to_model(self, client: ClientProtocol, small: dict[str, Any]) -> None:
        loaded = client.load(small, secrets={"KEY": "s3cret-value"})
        job_id = client.submit(loaded)
        client.confirm(job_id)
        client.start(job_id)
        views = list(client.follow(job_id))
        assert views[-1].record.state is JobState.SUCCEEDED, views[-1].record.error
        assert views[-1].spent.usd == pytest.approx(sum(item.usd for item in views[-1].bill))
        log = list(client.logs(job_id, task=views[-1].run.attempts[0].task_id))
        assert "mounted" in log
        assert "validation.txt" in log
        assert "hello <KEY>" in log
        assert "trained 500" in log
        assert not any("junk" in line or "__pycache__" in line for line in log)
        with zipfile.ZipFile(io.BytesIO(b"".join(client.model(job_id)))) as archive:
            assert archive.namelist() == ["model.json"]
        assert views[-1].model

    def test_a_replayed_job_is_planned_confirmed_and_told(
        self, client: ClientProtocol, replayed: dict[str, Any], tmp_path: Path
    ) -> None:
        loaded = client.load(_TOY)
        assert len(client.check(loaded, **replayed).space) == 6
        job_id = client.submit(loaded, **replayed)
        client.start(job_id)
        planned = list(client.follow(job_id))[-1]
        assert planned.record.state is JobState.PLANNED, planned.record.error
        told = client.events(job_id)
        assert [event.number for event in told] == list(range(1, len(told) + 1))
        assert client.events(job_id, after=2) == told[2:]
        assert len(client.story(job_id).beliefs) == len(planned.trials)
        client.confirm(job_id)
        done = list(client.follow(job_id))[-1]
        assert done.record.state is JobState.SUCCEEDED
        page = client.report(job_id, tmp_path / "report.html").read_text()
        assert "Forecast beside fact" in page

    def test_a_stopped_job_goes_on_with_new_limits(self, client: ClientProtocol, small: dict[str, Any]) -> None:
        loaded = client.load({**small, "name": "long", "work": {"samples": 100_000}}, secrets={"KEY": "value"})
        job_id = client.submit(loaded)
        client.confirm(job_id)
        client.start(job_id)
        client.stop(job_id)
        stopped = list(client.follow(job_id))[-1]
        assert stopped.record.state is JobState.STOPPED
        view = client.resume(job_id, budget_usd=5.0, deadline="2h")
        assert view.record.budget_usd == 5.0
        assert view.record.state.active
        client.stop(job_id)
        assert list(client.follow(job_id))[-1].record.state is JobState.STOPPED

    def test_a_log_is_followed_to_its_end(self, client: ClientProtocol, small: dict[str, Any]) -> None:
        """Also lines of a progress bar, which end with a carriage return."""
        said = "printf 'first\\nhalf\\rwhole\\n'"
        job_id = client.submit(client.load({**small, "name": "told", "setup": said}, secrets={"KEY": "value"}))
        client.start(job_id)
        lines = list(client.logs(job_id, follow=True))
        assert lines[:3] == ["first", "half", "whole"], lines
        list(client.follow(job_id))

    def test_jobs_are_listed_newest_first_in_pages(self, client: ClientProtocol, replayed: dict[str, Any]) -> None:
        ids = [client.submit(client.load({**_TOY, "name": f"page {n}"}), **replayed) for n in range(3)]
        first = client.lines(words="page", limit=2)
        assert [line.id for line in first.items] == [ids[2], ids[1]]
        second = client.lines(words="page", limit=2, cursor=first.next)
        assert [line.id for line in second.items][:1] == [ids[0]]
        assert client.lines(words="page", states=[JobState.FAILED]).items == []
        assert {view.record.id for view in client.views()} >= set(ids)

    def test_a_job_goes_by_its_name_and_the_beginning_of_its_id(
        self, client: ClientProtocol, replayed: dict[str, Any]
    ) -> None:
        job_id = client.submit(client.load({**_TOY, "name": "By name"}), **replayed)
        assert client.view("By name").record.id == job_id
        assert client.view(job_id[:-1]).record.id == job_id

    def test_what_jobs_learnt_is_kept(self, client: ClientProtocol, replayed: dict[str, Any]) -> None:
        job_id = client.submit(client.load({**_TOY, "name": "teacher"}), **replayed)
        client.start(job_id)
        view = list(client.follow(job_id))[-1]
        client.submit(client.load({**_TOY, "name": "idle"}), **replayed)  # it has learnt nothing
        lesson = client.lessons(limit=1).items[0]
        assert lesson.job_id == job_id
        assert lesson.trials == view.trials
        assert view.record.plan is not None
        assert lesson.chosen == view.record.plan.deployment.key

    def test_lessons_come_in_pages(self, client: ClientProtocol, replayed: dict[str, Any]) -> None:
        for number in range(2):
            job_id = client.submit(client.load({**_TOY, "name": f"pupil {number}"}), **replayed)
            client.start(job_id)
            list(client.follow(job_id))
        first = client.lessons(limit=1)
        second = client.lessons(limit=1, cursor=first.next)
        assert [page.items[0].name for page in (first, second)] == ["pupil 1", "pupil 0"]
        assert client.lessons().next is None

    def test_offers_are_listed(self, client: ClientProtocol, replayed: dict[str, Any]) -> None:
        assert {offer.instance.name for offer in client.offers("local")} >= {"local-1c", "local-2c"}
        names = {offer.instance.name for offer in client.offers("replay", replayed["cloud_options"])}
        assert names == {"slow", "fast"}

    def test_nothing_is_stray(self, client: ClientProtocol) -> None:
        assert client.sweep() == []

    def test_errors_are_of_the_same_class_with_the_same_hint(
        self, client: ClientProtocol, replayed: dict[str, Any], small: dict[str, Any]
    ) -> None:
        with pytest.raises(NotFoundError) as unknown:
            client.view("nothing-like-it")
        assert unknown.value.exit_code == 102
        with pytest.raises(NotFoundError, match="no log yet"):
            list(client.logs(client.submit(client.load(_TOY), **replayed)))
        with pytest.raises(InvalidJobError, match="not say how much"):
            client.check(client.load({"name": "x", "run": "true"}), **replayed)
        with pytest.raises(NotFoundError, match="Did you mean 'local'"):
            client.offers("locall")
        with pytest.raises(UserError, match="has no option"):
            client.offers("replay", {**replayed["cloud_options"], "wrokload": "toy"})
        with pytest.raises(InvalidJobError, match="no value"):
            client.load(small)
        assert issubclass(GoalUnreachableError, UserError)
