"""The report as a file: whole, offline, safe, and readable from the poorest story."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

import stories
from mlcd.core.machines import Deployment
from mlcd.core.progress import MetricPoint, Point
from mlcd.core.run import JobState
from mlcd.core.study import Ledger
from mlcd.core.trial import Failure, FailureKind, Measurement, Trial
from mlcd.core.view import JobStory, JobView
from mlcd.reporting.page import render, write_report


class Reader(HTMLParser):
    """Collects text, tags, links and embedded chart data; complains of elements that are not closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.links: list[str] = []
        self.charts: dict[str, list[dict[str, object]]] = {}
        self.text = ""
        self._script = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]
        self._script = dict(attrs).get("id") or "" if tag == "script" else ""
        if tag not in ("meta", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            if self._script:
                self.charts[self._script] = json.loads(data)
        else:
            self.text += data


def read(story: JobStory) -> Reader:
    reader = Reader()
    reader.feed(render(story))
    reader.close()
    assert reader.open == []
    return reader


def poor(view: JobView) -> JobStory:
    """A story of which nothing is known but how the job stands."""
    return JobStory(view)


def test_the_report_is_one_file_that_needs_no_network(tmp_path: Path) -> None:
    path = write_report(stories.story(), tmp_path / "deep" / "report.html")
    reader = Reader()
    reader.feed(path.read_text())
    assert reader.links == []
    assert [file.name for file in path.parent.iterdir()] == ["report.html"]
    assert "Plotly.react" in path.read_text()


def test_the_report_tells_every_part_of_the_story() -> None:
    reader = read(stories.story())
    for words in (
        "The choice",
        "The search",
        "Forecast beside fact",
        "Training",
        "Bill",
        "Failures",
        "The log's end",
    ):
        assert words in reader.text
    assert set(reader.charts) == {"charts-time-cost", "charts-order", "charts-beliefs", "charts-training"}
    assert "deadline of 4h 00m kept" in reader.text
    assert "node 2 went away" in reader.text
    assert "saved model.pt" in reader.text
    assert "CUDA out of memory. Tried to allocate" in reader.text


def test_the_bill_adds_up_to_its_total() -> None:
    text = re.sub(r"<[^>]+>", "|", render(stories.story()).split("<h2>Bill</h2>")[1].split("</table>")[0])
    amounts = [float(amount) for amount in re.findall(r"\$([\d.]+)", text)]
    *lines, probes, trainings, total = amounts
    assert len(lines) == 10
    assert abs(sum(lines) - total) < 0.01 * len(lines)
    assert abs(probes + trainings - total) < 0.02


def test_beliefs_have_one_step_for_each_trial() -> None:
    panels = read(stories.story()).charts["charts-beliefs"]
    assert panels[0]["title"] == "p3.2xlarge, us-east-1, batch 256"
    assert {len(panel["frames"]) for panel in panels} == {len(stories.TRIALS)}  # type: ignore[arg-type]


def test_untrusted_text_is_shown_and_never_run() -> None:
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"
    view = stories.succeeded()
    offer = replace(stories.TYPES[0], instance=replace(stories.TYPES[0].instance, name=evil))
    failed = Trial(Deployment(offer, 1), Failure(FailureKind.CRASHED, evil, 3, evil + "\x1b[31mred\x00"), 3.0, 0.1)
    story = replace(
        stories.story(),
        view=replace(
            view,
            trials=(*view.trials, failed),
            record=replace(view.record, job=stories.job(evil), error=evil),
        ),
        events=tuple(replace(event, message=evil) for event in stories.events()),
        metrics=(MetricPoint(1.0, 1.0, evil, 0.5), MetricPoint(2.0, 2.0, evil, 0.4)),
        log_tail=evil,
    )
    reader = read(story)
    assert "img" not in reader.tags
    assert render(story).count("alert(1)") > 5
    assert "onerror=alert(1)>" in reader.text
    assert "\x1b" not in reader.text


def test_values_of_the_environment_stay_out() -> None:
    page = render(stories.story())
    assert "WANDB_API_KEY" in page
    assert "HF_TOKEN" in page
    assert "value-that-is-not-shown" not in page


def test_a_job_that_failed_in_its_first_probe_has_a_report() -> None:
    failed = Trial(stories.deployment(0, 1), Failure(FailureKind.SILENT, "not one step was seen", 0, ""), 12.0, 0.001)
    view = JobView(
        stories.record(JobState.FAILED, error="Nothing could be measured."),
        stories.goal(),
        Ledger(12.0, 0.001),
        Ledger(12.0, 0.001),
        (failed,),
    )
    reader = read(poor(view))
    assert "Nothing could be measured." in reader.text
    assert "never reported" in reader.text


def test_a_job_that_has_not_begun_has_a_report() -> None:
    view = JobView(stories.record(JobState.SEARCHING), stories.goal(), Ledger(), Ledger())
    assert "Nothing has been charged." in read(poor(view)).text


def test_a_limit_that_is_not_kept_says_so() -> None:
    view = stories.succeeded()
    late = replace(view, goal=replace(view.goal, deadline_seconds=3600.0))
    assert "deadline of 1h 00m passed by 1h 17m" in read(stories.story(late)).text


def test_a_planned_job_shows_what_is_still_expected() -> None:
    assert "expected 40m 44s" in read(stories.story(stories.planned())).text


def test_workers_and_servers_have_their_prices() -> None:
    text = read(stories.story(stories.served(stories.planned()))).text
    assert "2 × p3.2xlarge + 2 × c5n.large serving, batch 256" in text
    assert "2 × p3.2xlarge at $6.12/h, 2 × c5n.large serving at $0.2200/h" in text


def test_numbers_that_are_none_leave_gaps() -> None:
    nan = float("nan")
    broken = replace(stories.TRIALS[0], outcome=Measurement(nan, nan, nan))
    view = replace(stories.succeeded(), trials=(broken, *stories.TRIALS[1:]))
    story = replace(
        stories.story(view),
        points=(Point(0.0, 0.0, 0.0), Point(nan, 1.0, nan), Point(0.0, 2.0, 5.0)),
        metrics=(MetricPoint(1.0, 1.0, "loss", nan), MetricPoint(2.0, 2.0, "loss", float("inf"))),
    )
    loss = read(story).charts["charts-training"][-1]
    assert loss["frames"][0][0]["y"] == [None, None]  # type: ignore[index]


def test_a_failed_write_leaves_the_old_report(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")
    broken = replace(stories.story(), events=(None,))  # type: ignore[arg-type]
    with pytest.raises(AttributeError):
        write_report(broken, path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
