import os
import time
from pathlib import Path

import pytest

from mlcd.clouds.log_patterns import PatternReader, common_metrics, may_take_forever
from mlcd.clouds.log_progress import LogProgress, combine
from mlcd.core.progress import MetricPoint, Point, Progress


def log(folder: Path, text: str, written_at: float) -> Path:
    file = folder / "node-0.log"
    with file.open("a") as stream:
        stream.write(text)
    os.utime(file, (written_at, written_at))
    return file


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("epoch 3 loss: 0.31", {"loss": 0.31}),
        ("val_acc=0.97 took=12.1", {"val_acc": 0.97}),
        ("Test accuracy: 97.1 %", {"test_accuracy": 0.971}),
        ("{'loss': 2.31, 'grad_norm': 3.2, 'epoch': 0.1}", {"loss": 2.31}),
        ("100%|###| 9/9 [00:01<00:00, 8it/s, train/loss=1e-3]", {"train/loss": 0.001}),
        ("train loss 3", {}),
        ("blossom: 3, loss: abc, glossy=4", {}),
        ("loss=nan", {}),
        ("a" * 100_000, {}),
    ],
)
def test_common_metrics_are_found_in_ordinary_lines(line: str, found: dict[str, float]) -> None:
    assert common_metrics(line) == pytest.approx(found)


def test_steps_times_batch_size_give_samples(tmp_path: Path) -> None:
    reader = LogProgress(
        log(tmp_path, "step 10 | loss 2.5\n", 1001.0), r"step (?P<step>\d+) \| loss (?P<loss>\S+)", 1000.0, 32
    )
    reader.read(1001.1)
    log(tmp_path, "noise\nstep 20 | loss 1.5\nstep 3", 1003.0)
    progress = reader.read(1003.2)
    assert progress.points == (Point(1.0, 10, 320), Point(3.0, 20, 640))
    assert progress.metrics == (MetricPoint(1.0, 10, "loss", 2.5), MetricPoint(3.0, 20, "loss", 1.5))


def test_lines_that_came_while_no_one_read_are_spread_over_that_time(tmp_path: Path) -> None:
    file = log(tmp_path, "".join(f"step {n}\n" for n in range(1, 11)), 1010.0)
    points = LogProgress(file, r"step (?P<step>\d+)", 1000.0, 1).read(5000.0).points
    assert [point.seconds for point in points] == pytest.approx(list(range(1, 11)))


def test_a_step_that_begins_again_in_every_epoch_adds_up(tmp_path: Path) -> None:
    file = log(tmp_path, "step 50\nstep 100\nstep 50\nstep 100\n", 1.0)
    assert LogProgress(file, r"step (?P<step>\d+)", 0.0, 2).read(1.0).samples == 400


def test_epochs_count_by_the_size_of_the_data(tmp_path: Path) -> None:
    progress = LogProgress(log(tmp_path, "epoch 2\n", 1.0), r"epoch (?P<epoch>\d+)", 0.0, 10, 500).read(1.0)
    assert (progress.steps, progress.samples) == (100, 1000)


def test_a_program_that_counts_on_is_counted_from_where_it_began(tmp_path: Path) -> None:
    file = log(tmp_path, "samples=1,100\n", 1.0)
    progress = LogProgress(file, r"samples=(?P<samples>[\d,]+)", 0.0, samples_before=1000).read(1.0)
    assert progress.samples == 100


def test_a_bar_that_is_drawn_over_makes_lines(tmp_path: Path) -> None:
    file = log(tmp_path, "loss=3\rloss=2\rloss=1\r", 1.0)
    assert [m.value for m in LogProgress(file, "", 0.0).read(1.0).metrics] == [3, 2, 1]


def test_a_missing_log_and_an_invalid_pattern_are_no_progress(tmp_path: Path) -> None:
    assert LogProgress(tmp_path / "none.log", "", 0.0).read(1.0) == Progress()
    assert LogProgress(log(tmp_path, "step 1\n", 1.0), r"step (?P<step>", 0.0).read(1.0) == Progress()


def test_a_pattern_that_would_take_for_ever_is_given_up() -> None:
    reader = PatternReader(r"(?P<step>(?:\d+)+)x")
    began = time.monotonic()
    assert reader.read(["1" * 60 + "y"]) == [{}]
    assert reader.read(["1" * 60 + "y"]) == [{}]
    assert time.monotonic() - began < 10


def test_a_nested_pattern_that_is_harmless_works() -> None:
    assert PatternReader(r"(?:\w+ )*loss (?P<loss>\S+)").read(["a b loss 0.5", "no"]) == [{"loss": 0.5}, {}]


@pytest.mark.parametrize(
    ("pattern", "nested"),
    [
        (r"(a+)+b", True),
        (r"(?:x*y?)*", True),
        (r"step (?P<step>\d+) loss (\d+)", False),
        (r"(?:\d{1,3}){1,4}", False),
    ],
)
def test_nested_repetitions_are_told(pattern: str, nested: bool) -> None:
    assert may_take_forever(pattern) is nested


def test_what_the_program_reports_goes_before_what_its_log_says() -> None:
    reported = Progress(points=(Point(1, 1, 1),))
    logged = Progress(points=(Point(2, 2, 2),), metrics=(MetricPoint(1, 1, "loss", 1.0),))
    assert combine(reported, logged) == Progress(reported.points, logged.metrics)
    assert combine(Progress(), logged) == logged
