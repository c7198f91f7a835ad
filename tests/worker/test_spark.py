"""The passes of Spark MLlib over its data, counted in a program that knows nothing of mlcd."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import mlcd.worker.session as session
from mlcd.worker.spark import Passes
from worker.programs import finish, start
from worker.sessions import lines


@dataclass(frozen=True)
class SparkJob:
    status: str
    stageIds: tuple[int, ...] = ()  # noqa: N815  # Spark's name


@dataclass(frozen=True)
class Stage:
    numTasks: int  # noqa: N815
    numCompletedTasks: int  # noqa: N815


@dataclass
class Tracker:
    """What Spark's status tracker tells: its jobs by their numbers."""

    jobs: dict[int, SparkJob] = field(default_factory=dict)
    stages: dict[int, Stage] = field(default_factory=dict)

    def getJobIdsForGroup(self) -> list[int]:  # noqa: N802
        return list(self.jobs)

    def getActiveJobsIds(self) -> list[int]:  # noqa: N802
        return [number for number, job in self.jobs.items() if job.status == "RUNNING"]

    def getJobInfo(self, number: int) -> SparkJob | None:  # noqa: N802
        return self.jobs.get(number)

    def getStageInfo(self, number: int) -> Stage | None:  # noqa: N802
        return self.stages.get(number)


@pytest.fixture(autouse=True)
def fresh_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_session", None)


def counted() -> tuple[int, float]:
    now = session.current().counts.now
    return now.steps, now.samples


def test_jobs_before_the_first_fit_are_no_passes() -> None:
    tracker = Tracker({4000: SparkJob("SUCCEEDED"), 4001: SparkJob("FAILED")})  # Spark has forgotten the first ones
    passes = Passes(tracker, samples=100.0)
    tracker.jobs[4002] = SparkJob("SUCCEEDED")
    assert passes.look()
    assert counted() == (1, 100.0)


def test_what_runs_outside_of_a_fit_is_passed_over() -> None:
    tracker = Tracker()
    passes = Passes(tracker, samples=100.0)
    tracker.jobs |= {0: SparkJob("SUCCEEDED"), 1: SparkJob("SUCCEEDED")}
    passes.pass_over()
    tracker.jobs[2] = SparkJob("SUCCEEDED")
    passes.look()
    assert counted() == (1, 100.0)


def test_what_spark_has_forgotten_between_two_fits_ends_no_counting() -> None:
    tracker = Tracker({0: SparkJob("SUCCEEDED")})
    passes = Passes(tracker, samples=100.0)
    tracker.jobs = {number: SparkJob("SUCCEEDED") for number in range(500, 1500)}
    passes.pass_over()
    tracker.jobs[1500] = SparkJob("SUCCEEDED")
    passes.look()
    assert counted() == (1, 100.0)


def test_a_pass_that_runs_counts_by_its_tasks() -> None:
    tracker = Tracker({0: SparkJob("SUCCEEDED")})
    passes = Passes(tracker, samples=100.0)
    tracker.jobs[1] = SparkJob("RUNNING", (7, 8, 9))
    tracker.stages = {7: Stage(6, 3), 8: Stage(2, 0)}  # of 9 nothing is known yet
    assert not passes.look()
    assert counted() == (0, 37.5)
    tracker.jobs[1] = SparkJob("SUCCEEDED", (7, 8, 9))
    assert passes.look()
    assert counted() == (1, 100.0)


def test_a_pass_that_fails_is_none() -> None:
    tracker = Tracker()
    passes = Passes(tracker, samples=100.0)
    tracker.jobs |= {0: SparkJob("FAILED"), 1: SparkJob("SUCCEEDED")}
    passes.look()
    assert counted() == (1, 100.0)


def test_passes_of_an_earlier_context_stay_counted() -> None:
    passes = Passes(Tracker(), samples=10.0, done=5)
    passes.look()
    assert passes.done == 5


PROGRAM = """
from pyspark.ml.classification import LogisticRegression
from pyspark.ml.linalg import Vectors
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
rows = [(float(number % 2), Vectors.dense([float(number % 7), float(number % 3)])) for number in range(60)]
data = spark.createDataFrame(rows, ["label", "features"]).cache()
for _ in range(5):
    data.count()  # no training
model = LogisticRegression(maxIter=8, tol=0.0).fit(data)
print("iterations", model.summary.totalIterations)
for _ in range(5):
    model.transform(data).count()
LogisticRegression(maxIter=1, tol=0.0).fit(data)
"""


@pytest.mark.slow
def test_real_passes_are_counted_and_evaluations_are_not(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    if shutil.which("java") is None:
        pytest.skip("there is no Java runtime")
    output = finish(start(PROGRAM, tmp_path, MLCD_EPOCH_SAMPLES=60))
    iterations = int(output.split("iterations ")[1].split()[0])
    last = lines(tmp_path / "progress", 0)[-1]
    # Each fit begins with a look at the data and its first loss; a search along a line may take more than one.
    assert iterations + 1 <= last["steps"] <= 2 * iterations + 8
    assert last["samples"] == 60 * last["steps"]
