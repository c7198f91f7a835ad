"""A loss that is nan or infinite is shown and told, and where the job asks for it the training stops before it."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from mlcd.api import Client
from mlcd.cli.screen import plain_data
from mlcd.core.job import Direction, Target
from mlcd.core.progress import MetricPoint, Point, Progress
from mlcd.core.run import AttemptEnd, JobState
from mlcd.core.view import JobView
from mlcd.engine.context import job_folder
from mlcd.engine.nan_loss import AFTER_NAN, nan_loss, only_checkpoints_before, samples_before_nan
from mlcd.engine.tasks import carried_samples, checkpoint_folder
from mlcd.web.serialize import encode
from mlcd.worker import checkpoints
from small_jobs import MakeJob

NAN = math.nan


def seen(*values: float, name: str = "loss") -> Progress:
    """A value at each second, with ten samples more each time."""
    moments = range(1, len(values) + 1)
    metrics = tuple(MetricPoint(at, at, name, value) for at, value in zip(moments, values, strict=True))
    return Progress(tuple(Point(at, at, 10.0 * at) for at in moments), metrics)


@pytest.mark.parametrize("name", ["loss", "train_loss", "val/loss", "Loss", "nll"])
def test_a_loss_that_ends_in_nan_is_found_at_its_first_nan(name: str) -> None:
    found = nan_loss(seen(0.5, NAN, 0.4, NAN, math.inf, name=name), None)
    assert found is not None
    assert (found.name, found.seconds) == (name, 4)


@pytest.mark.parametrize(
    "progress",
    [
        Progress(),
        seen(0.5, NAN, 0.4),  # it has recovered
        seen(NAN, name="val_loss"),  # nothing was validated yet
        seen(0.5, NAN, name="grad_norm"),
        seen(0.5, NAN, name="lossless_bits"),
    ],
)
def test_what_is_no_lost_loss_is_not_found(progress: Progress) -> None:
    assert nan_loss(progress, None) is None


def test_a_loss_that_never_had_a_number_is_found_after_three_values() -> None:
    assert nan_loss(seen(NAN, NAN), None) is None
    assert nan_loss(seen(NAN, NAN, NAN), None) is not None


def test_the_metric_of_the_target_counts_and_no_nan_or_infinity_reaches_it() -> None:
    target = Target("reward", 3.0, Direction.UP)
    assert nan_loss(seen(1.0, NAN, name="reward"), target) is not None
    assert not target.reached(NAN)
    assert not target.reached(math.inf)
    assert not Target("loss", 3.0, Direction.DOWN).reached(-math.inf)


def test_states_are_trusted_up_to_the_first_nan() -> None:
    progress = seen(0.5, 0.4, NAN, NAN)
    lost = nan_loss(progress, None)
    assert lost is not None
    assert samples_before_nan(progress, lost, 100.0) == 130.0
    always = seen(NAN, NAN, NAN)
    assert samples_before_nan(always, always.metrics[0], 100.0) == 100.0


def save(root: Path, samples: float) -> None:
    partial = checkpoints.begin(root)
    (partial / "state").write_text(f"{samples}")
    checkpoints.commit(partial, checkpoints.Facts(samples))


def test_the_newest_checkpoint_from_before_survives_pruning_and_later_ones_are_put_away(
    tmp_path: Path,
) -> None:
    for samples in (10, 20):
        save(tmp_path, samples)
    with only_checkpoints_before(tmp_path, 25.0):
        for samples in (30, 40):
            save(tmp_path, samples)
        checkpoints.prune(tmp_path, keep=2)
    (left,) = checkpoints.complete_checkpoints(tmp_path)
    assert left.facts.samples == 20
    assert left.is_intact()
    assert sorted(path.name for path in (tmp_path / AFTER_NAN).iterdir()) == ["000003-30", "000004-40"]
    with only_checkpoints_before(tmp_path, 25.0):
        pass  # again, by a controller that took over
    assert [each.facts.samples for each in checkpoints.complete_checkpoints(tmp_path)] == [20]


def test_without_any_checkpoint_from_before_none_is_left(tmp_path: Path) -> None:
    save(tmp_path, 30)
    with only_checkpoints_before(tmp_path, 25.0):
        pass
    assert checkpoints.complete_checkpoints(tmp_path) == []


def test_a_checkpoint_at_the_first_nan_is_not_kept(tmp_path: Path) -> None:
    for samples in (10, 25):
        save(tmp_path, samples)
    with only_checkpoints_before(tmp_path, 25.0):
        save(tmp_path, 30)
        checkpoints.prune(tmp_path, keep=2)
    assert [each.facts.samples for each in checkpoints.complete_checkpoints(tmp_path)] == [10]


def test_a_checkpoint_that_was_set_aside_is_not_the_one_kept_from_before(tmp_path: Path) -> None:
    for samples in (10, 20):
        save(tmp_path, samples)
    checkpoints.refuse(checkpoints.complete_checkpoints(tmp_path)[0], "t2")
    with only_checkpoints_before(tmp_path, 25.0):
        for samples in (30, 40):
            save(tmp_path, samples)
        checkpoints.prune(tmp_path, keep=2)
    newest = checkpoints.newest_intact(tmp_path)
    assert newest is not None
    assert newest.facts.samples == 10


PROGRAM = """
import math, os, time
import mlcd

before = int(float(os.environ.get("MLCD_SAMPLES_BEFORE") or 0))
def save():
    with mlcd.checkpoint() as folder:
        (folder / "state").write_text("s")
for number, batch in enumerate(mlcd.steps([[0] * 10] * ((6000 - before) // 10))):
    time.sleep(0.02)
    lost = number > 120 and os.environ["MLCD_TASK_ID"].endswith("-t1")
    print(f"step {number} loss={math.nan if lost else 0.5}", flush=True)
    if number % 20 == 19:
        save()
if mlcd.stopping():
    save()
"""


def run(client: Client, job: dict[str, object]) -> JobView:
    job_id = client.submit(client.load(job))
    client.confirm(job_id)
    return client.drive(job_id)


@pytest.mark.slow
def test_on_nan_stop_stops_and_resume_goes_on_from_before(client: Client, make_job: MakeJob) -> None:
    view = run(client, make_job(PROGRAM, work={"samples": 6000}, on_nan="stop"))
    assert view.record.state is JobState.FAILED
    assert "loss is nan" in view.record.error
    (attempt,) = view.run.attempts
    assert (attempt.end, attempt.nan_loss) == (AttemptEnd.STOPPED, "loss")
    folder = job_folder(client.settings, view.record.id)
    saved = carried_samples(folder)
    assert attempt.samples_before < saved <= attempt.samples_before + 1250
    assert f"from {saved:,.0f} samples" in view.record.error
    assert list((checkpoint_folder(folder) / AFTER_NAN).iterdir())
    warnings = [event for event in client.events(view.record.id) if event.kind == "warning"]
    assert [event.data["metric"] for event in warnings if "nan" in event.data] == ["loss"]

    client.resume(view.record.id)
    view = list(client.follow(view.record.id))[-1]
    assert view.record.state is JobState.SUCCEEDED, view.record.error
    assert view.run.attempts[-1].samples_before == saved


@pytest.mark.slow
def test_on_nan_warn_goes_on_and_shows_it_as_valid_json(client: Client, make_job: MakeJob) -> None:
    view = run(client, make_job(PROGRAM, work={"samples": 6000}))
    assert view.record.state is JobState.SUCCEEDED, view.record.error
    assert view.run.attempts[-1].nan_loss == "loss"
    live = client.store.live(view.record.id)
    assert live is not None
    assert math.isnan(live.metrics["loss"])
    story = client.story(view.record.id)
    assert math.isnan([point.value for point in story.metrics if point.name == "loss"][-1])
    strict = {"parse_constant": pytest.fail}
    assert json.loads(encode(live), **strict)["metrics"]["loss"] == "NaN"
    assert json.loads(json.dumps(plain_data(live), allow_nan=False), **strict)["metrics"]["loss"] is None
    json.loads(encode(story), **strict)
    told = [event for event in client.events(view.record.id) if "is nan since" in event.message]
    assert len(told) == 1


WORK_OF_A_PROBE = """
import os, time
import mlcd

before = int(float(os.environ.get("MLCD_SAMPLES_BEFORE") or 0))
for number, batch in enumerate(mlcd.steps([[0] * 10] * ((500 - before) // 10))):
    first = not before
    mlcd.report(loss=float("nan") if first and number > 42 else 0.5)
    time.sleep(0.04)
    if number % 10 == 9:
        with mlcd.checkpoint() as folder:
            (folder / "state").write_text("s")
"""
LONG_PROBE = {"warmup_seconds": 0.2, "min_seconds": 5, "max_seconds": 20, "silent_seconds": 60}


@pytest.mark.slow
def test_a_probe_that_did_all_the_work_hides_no_nan(client: Client, make_job: MakeJob) -> None:
    view = run(client, make_job(WORK_OF_A_PROBE, work={"samples": 500}, probe=LONG_PROBE))
    (attempt,) = view.run.attempts
    assert view.record.state is JobState.SUCCEEDED
    assert "did all the work" in attempt.why
    assert attempt.nan_loss == "loss"
    assert any("loss is nan" in event.message for event in client.store.events(view.record.id))


@pytest.mark.slow
def test_on_nan_stop_holds_for_a_probe_that_did_all_the_work(client: Client, make_job: MakeJob) -> None:
    job = make_job(WORK_OF_A_PROBE, work={"samples": 500}, probe=LONG_PROBE, on_nan="stop")
    view = run(client, job)
    assert view.record.state is JobState.FAILED
    assert "on_nan: stop" in view.record.error
    saved = carried_samples(job_folder(client.settings, view.record.id))
    assert saved == 400
    assert f"from {saved:,.0f} samples" in view.record.error

    client.resume(view.record.id)
    view = list(client.follow(view.record.id))[-1]
    assert view.record.state is JobState.SUCCEEDED, view.record.error
    assert view.run.attempts[-1].samples_before == saved
