"""The replayed cloud keeps the contract of every cloud, and the paper's profiling time to the second."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from mlcd.clouds.base import Cloud, Recorded
from mlcd.clouds.replay import open_cloud
from mlcd.clouds.replay.cloud import ReplayCloud
from mlcd.core.job import ProbeSettings
from mlcd.core.machines import Deployment
from mlcd.core.task import Handle, Task, TaskKind, TaskState, TaskStatus
from mlcd.core.trial import Failure, FailureKind, Measurement
from mlcd.engine.probe_result import probe_result
from mlcd.errors import CloudError, NoCapacityError, NotFoundError, UserError
from mlcd.settings import Settings
from mlcd.testing import CloudContract
from mlcd.worker.checkpoints import newest_intact

TRACE = """\
workload,instance,nodes,batch,throughput,samples,usd_per_node_hour,status
cnn,small,1,32,100,1000,1.0,ok
cnn,small,1,64,110,1500,1.0,ok
cnn,small,4,32,300,1000,1.0,ok
cnn,small,5,32,340,1000,1.0,ok
cnn,big,1,32,400,1000,3.6,ok
cnn,big,1,64,,,3.6,failed
lm,small,1,,7,,1.0,ok
"""
MEASURING = ProbeSettings()
PROBE = Task(
    id="job-p1",
    job_id="job",
    kind=TaskKind.PROBE,
    platform="command",
    run="x",
    measuring_seconds=MEASURING.warmup_seconds + MEASURING.min_seconds,
)
TRAINING = Task(id="job-t1", job_id="job", kind=TaskKind.TRAINING, platform="command", run="x", samples=1e6)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    file = tmp_path / "tiny.csv"
    file.write_text(TRACE)
    return file


@pytest.fixture
def cloud(trace: Path) -> ReplayCloud:
    return reopen(trace)


def reopen(trace: Path, workload: str = "cnn", **options: str) -> ReplayCloud:
    return open_cloud(Settings(trace.parent / "home"), {"trace": str(trace), "workload": workload, **options})


def deployment(cloud: ReplayCloud, key: str) -> Deployment:
    return next(each for each in cloud.deployments() if each.key == key)


def launch(cloud: ReplayCloud, task: Task, key: str) -> Handle:
    return cloud.launch(task, deployment(cloud, key), {})


def probe(cloud: ReplayCloud, handle: Handle) -> tuple[Measurement | Failure, TaskStatus]:
    """Poll as the engine does until the probe has shown enough, then stop it."""
    while True:
        outcome = probe_result(cloud.status(handle), cloud.clock.now(), MEASURING)
        if outcome is not None:
            cloud.stop(handle)
            return outcome, cloud.status(handle)
        cloud.clock.sleep(cloud.poll_seconds)


class TestReplayContract(CloudContract):
    patience_seconds = 1e6

    def open_cloud(self, home: Path) -> Cloud:
        trace = home.parent / "tiny.csv"
        trace.write_text(TRACE)
        return open_cloud(Settings(home), {"trace": str(trace), "workload": "cnn"})

    def deployment(self, cloud: Cloud) -> Deployment:
        assert isinstance(cloud, ReplayCloud)
        return deployment(cloud, "1xsmall/b32")

    def succeeding(self, task: Task) -> Task:
        return replace(task, samples=1000.0)

    def failing(self, task: Task) -> Task | None:
        return None  # a recording fails, not a task: tested below

    def endless(self, task: Task) -> Task:
        return replace(task, samples=1e9)

    def reporting(self, task: Task) -> Task:
        return replace(task, samples=1e9)


@pytest.mark.parametrize(
    ("key", "rate", "seconds", "usd"),
    [
        ("1xsmall/b32", 100, 600, 600 / 3600),
        ("4xsmall/b32", 300, 660, 4 * 660 / 3600),
        ("5xsmall/b32", 340, 720, 5 * 720 / 3600),
        ("1xbig/b32", 400, 600, 0.6),
    ],
)
def test_a_probe_takes_the_papers_time_and_all_nodes_are_billed(
    cloud: ReplayCloud, key: str, rate: float, seconds: float, usd: float
) -> None:
    outcome, status = probe(cloud, launch(cloud, PROBE, key))
    assert isinstance(outcome, Measurement)
    assert outcome.samples_per_second == pytest.approx(rate)
    assert status.state is TaskState.STOPPED
    assert status.started_at is not None
    assert status.ended_at == status.started_at + seconds
    assert status.usd == pytest.approx(usd)


@pytest.mark.parametrize(("first", "step"), [("100", "10"), ("45.5", "7"), ("600", "0"), ("20", "60")])
def test_other_profiling_times_are_kept_as_exactly(trace: Path, first: str, step: str) -> None:
    cloud = reopen(trace, probe_first_seconds=first, probe_step_seconds=step, nodes_per_step="2")
    _, status = probe(cloud, launch(cloud, PROBE, "5xsmall/b32"))
    assert status.started_at is not None
    assert status.ended_at is not None
    assert status.ended_at - status.started_at == pytest.approx(float(first) + 2 * float(step))


def test_a_recorded_failure_fails_after_starting_and_costs(cloud: ReplayCloud) -> None:
    outcome, status = probe(cloud, launch(cloud, PROBE, "1xbig/b64"))
    assert isinstance(outcome, Failure)
    assert outcome.reason is FailureKind.OUT_OF_MEMORY
    assert (status.state, status.exit_code) == (TaskState.FAILED, 1)
    assert status.usd == pytest.approx(3.6 * 593 / 3600)


def test_a_training_ends_exactly_when_its_samples_are_done_however_late_it_is_asked(
    cloud: ReplayCloud,
) -> None:
    began = cloud.clock.now()
    handle = launch(cloud, TRAINING, "1xbig/b32")
    cloud.clock.sleep(100_000)
    status = cloud.status(handle)
    assert (status.state, status.ended_at) == (TaskState.SUCCEEDED, began + 2500)
    assert status.progress.samples == 1e6
    assert status.usd == pytest.approx(2.5)


def test_a_week_of_training_is_followed_in_no_time(cloud: ReplayCloud) -> None:
    began = time.monotonic()
    handle = launch(cloud, replace(TRAINING, samples=100.0 * 7 * 86400), "1xsmall/b32")
    looks = 0
    while not cloud.status(handle).state.ended:
        assert cloud.poll_seconds >= 30
        cloud.clock.sleep(cloud.poll_seconds)
        looks += 1
    assert looks < 400
    assert time.monotonic() - began < 10
    assert cloud.clock.now() - (cloud.status(handle).ended_at or 0) < 30


def test_looking_is_cheap_and_shows_the_speed_of_late(cloud: ReplayCloud) -> None:
    handle = launch(cloud, replace(TRAINING, samples=1e8), "1xsmall/b32")
    cloud.clock.sleep(500_000)
    points = cloud.status(handle).progress.points
    assert len(points) < 250
    late = [point for point in points if point.seconds > points[-1].seconds - 60]
    assert len(late) >= 2
    assert (late[-1].samples - late[0].samples) / (late[-1].seconds - late[0].seconds) == pytest.approx(100)


def test_a_stopped_training_leaves_a_checkpoint_to_go_on_from(cloud: ReplayCloud, tmp_path: Path) -> None:
    kept = tmp_path / "checkpoints"
    task = replace(TRAINING, samples_before=500.0, checkpoints=str(kept))
    handle = launch(cloud, task, "1xsmall/b32")
    cloud.clock.sleep(60)
    cloud.stop(handle)
    cloud.stop(handle)
    assert cloud.status(handle).progress.samples == 6000
    newest = newest_intact(kept)
    assert newest is not None
    assert (newest.facts.samples, newest.sequence) == (6500, 1)


def test_a_training_at_its_time_limit_leaves_a_checkpoint_too(cloud: ReplayCloud, tmp_path: Path) -> None:
    task = replace(TRAINING, max_seconds=90.0, checkpoints=str(tmp_path / "checkpoints"))
    handle = launch(cloud, task, "1xsmall/b32")
    cloud.clock.sleep(1000)
    status = cloud.status(handle)
    assert (status.state, status.reason) == (TaskState.STOPPED, "time limit")
    newest = newest_intact(tmp_path / "checkpoints")
    assert newest is not None
    assert newest.facts.samples == 9000


def test_what_was_not_recorded_has_no_capacity(cloud: ReplayCloud) -> None:
    with pytest.raises(NoCapacityError, match="2 × small, batch 32 was not recorded"):
        cloud.launch(PROBE, replace(deployment(cloud, "1xsmall/b32"), nodes=2), {})
    assert list(cloud.owned()) == []


def test_only_recorded_deployments_are_offered_for_trying(cloud: ReplayCloud) -> None:
    assert isinstance(cloud, Recorded)
    assert len(cloud.deployments()) == 6
    assert [offer.instance.name for offer in cloud.offers()] == ["small", "big"]


def test_larger_batches_need_the_samples_that_the_trace_says(trace: Path) -> None:
    assert reopen(trace).samples_at(2000) == {32: 2000, 64: 3000}
    assert reopen(trace, "lm").samples_at(2000) == {}


def measured(cloud: ReplayCloud, task_id: str, job_id: str = "job") -> float:
    outcome, _ = probe(cloud, launch(cloud, replace(PROBE, id=task_id, job_id=job_id), "1xsmall/b32"))
    assert isinstance(outcome, Measurement)
    return outcome.samples_per_second


def test_the_same_probe_gives_the_same_noise_and_a_repeat_another(trace: Path) -> None:
    noisy = {"noise": "0.02", "seed": "1"}
    first = measured(reopen(trace, **noisy, state=str(trace.parent / "a.json")), "a-p1", "a")
    again = reopen(trace, **noisy, state=str(trace.parent / "b.json"))
    assert measured(again, "b-p1", "b") == pytest.approx(first)
    assert measured(again, "b-p2", "b") != pytest.approx(first)
    assert 0.9 < first / 100 < 1.1
    assert first != pytest.approx(100)


def test_a_killed_controller_finds_time_and_tasks_again(trace: Path) -> None:
    cloud = reopen(trace)
    handle = launch(cloud, PROBE, "1xsmall/b32")
    cloud.clock.sleep(300)
    del cloud
    again = reopen(trace)
    assert again.status(handle).started_at == again.clock.now() - 300
    assert launch(again, PROBE, "1xsmall/b32") == handle
    _, status = probe(again, handle)
    assert status.ended_at == again.clock.now()
    assert status.usd == pytest.approx(600 / 3600)


def test_two_processes_on_one_state_do_not_undo_each_other(trace: Path) -> None:
    one, two = reopen(trace), reopen(trace)
    launch(one, PROBE, "1xsmall/b32")
    launch(two, replace(PROBE, id="other-p1", job_id="other"), "1xbig/b32")
    one.clock.sleep(30)
    two.stop("job-p1")
    one.clock.sleep(30)
    assert {owned.task_id for owned in reopen(trace).owned()} == {"other-p1"}


def test_a_broken_state_file_is_named(trace: Path) -> None:
    (trace.parent / "state.json").write_text("{")
    with pytest.raises(CloudError, match=r"state\.json cannot be understood"):
        reopen(trace, state=str(trace.parent / "state.json"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nois": "1"}, "no option 'nois'"),
        ({"noise": "loud"}, "Option 'noise' of the replayed cloud is 'loud'"),
        ({"noise": "-1"}, "'-1', not a number of zero or more"),
        ({"seed": "1.5"}, "not a whole number"),
        ({"probe_first_seconds": "nan"}, "'nan', not a number"),
    ],
)
def test_a_wrong_option_is_named(trace: Path, options: dict[str, str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        reopen(trace, **options)


def test_a_replay_needs_a_trace_and_a_workload_that_it_has(trace: Path) -> None:
    with pytest.raises(UserError, match="needs a trace"):
        open_cloud(Settings(trace.parent), {})
    with pytest.raises(NotFoundError, match="Did you mean 'cnn'"):
        reopen(trace, "cnm")


def test_every_shared_recording_can_be_probed(shared_traces: Path, tmp_path: Path) -> None:
    options = {"trace": str(shared_traces / "gpu_training.csv"), "workload": "bert"}
    cloud = open_cloud(Settings(tmp_path), options)
    for number, each in enumerate(cloud.deployments()[::25]):
        outcome, status = probe(cloud, cloud.launch(replace(PROBE, id=f"p{number}"), each, {}))
        rate = cloud.workload.throughput(each)
        if rate is None:
            assert isinstance(outcome, Failure)
        else:
            assert isinstance(outcome, Measurement)
            assert outcome.samples_per_second == pytest.approx(rate)
            assert status.usd == pytest.approx(each.usd(cloud.probe_time.seconds(each.nodes)))
