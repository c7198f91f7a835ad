import json
import math
import multiprocessing
import os
import time
from pathlib import Path

import mlcd
from mlcd.worker.counts import Count
from mlcd.worker.reporter import Reporter
from worker.sessions import Inside, lines


def test_the_first_step_is_reported_soon(inside: Inside, tmp_path: Path) -> None:
    session = inside()
    session.counts.add_loop(1, 8)
    session.start()
    deadline = time.monotonic() + 60
    while not (tmp_path / "progress" / "rank-0.jsonl").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert lines(tmp_path / "progress")[0]["samples"] == 8


def test_metrics_come_with_the_next_line_as_numbers_or_words_for_what_is_not_finite(
    inside: Inside, tmp_path: Path
) -> None:
    session = inside(RANK=3)
    mlcd.report(step=7, loss="0.25", bad=math.nan, text="abc", many=[1, 2])
    session.reporter.end()
    reported = [line for line in lines(tmp_path / "progress", rank=3) if "metrics" in line]
    assert [line["metrics"] for line in reported] == [{"loss": 0.25, "bad": "nan"}]
    assert reported[0]["step"] == 7


def test_nothing_new_writes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "rank-0.jsonl"
    reporter = Reporter(lambda: file, lambda: Count(1.0, 5, 40.0), lambda: None)
    for _ in range(3):
        reporter._write()
    assert len(file.read_text().splitlines()) == 1


def test_a_batch_without_a_step_is_a_sign_of_life(tmp_path: Path) -> None:
    file = tmp_path / "rank-0.jsonl"
    reporter = Reporter(lambda: file, lambda: Count(1.0, 5, 40.0), lambda: None)
    reporter._write()
    reporter.batches += 1
    reporter._write()
    reporter._write()
    first, second = (json.loads(line) for line in file.read_text().splitlines())
    assert (first["samples"], second["samples"]) == (40, 40)
    assert second["t"] > first["t"]


def test_a_full_disk_is_waited_out_and_loses_no_metric(tmp_path: Path) -> None:
    places = [Path("/dev/full"), tmp_path / "missing" / "rank-0.jsonl"]
    reporter = Reporter(lambda: places[0], lambda: Count(1.0, 5, 40.0), lambda: None)
    reporter.add_metrics({"loss": 0.5}, None)
    reporter._write()
    places.pop(0)
    reporter._write()
    assert [line["metrics"] for line in lines(places[0].parent)] == [{"loss": 0.5}]


def _in_child(folder: str) -> None:
    for _ in mlcd.steps([[1.0]] * 3):
        pass
    mlcd.report(loss=1.0)


def test_a_forked_child_reports_nothing_and_the_parent_goes_on(inside: Inside, tmp_path: Path) -> None:
    session = inside()
    for _ in mlcd.steps([[1.0, 2.0]] * 3):
        pass
    child = multiprocessing.get_context("fork").Process(target=_in_child, args=(str(tmp_path),))
    child.start()
    child.join(20)
    session.reporter.end()
    reported = lines(tmp_path / "progress")
    assert child.exitcode == 0
    assert {line["process"].split("-")[0] for line in reported} == {str(os.getpid())}
    assert reported[-1]["samples"] == 6
