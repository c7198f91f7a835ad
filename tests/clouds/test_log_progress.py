import math
import os
import time
from pathlib import Path

import pytest

from mlcd.clouds import log_progress
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
        ("epoch 1 loss 1.8158 val_accuracy 0.7833", {"loss": 1.8158, "val_accuracy": 0.7833}),
        ("Epoch 2  Train Loss 2e-3  Val acc 97.5%", {"train_Loss": 0.002, "val_acc": 0.975}),
        ("error 404, version 2.1, loss of 3.5", {}),
        ("[3/9] loss 0.5, accuracy: 0.75", {"loss": 0.5, "accuracy": 0.75}),
        ("blossom: 3, loss: abc, glossy=4", {}),
        ("loss=nan", {"loss": math.nan}),
        ("Epoch 3 loss: -inf, acc: NaN", {"loss": -math.inf, "acc": math.nan}),
        ("loss=nano inf=3", {}),
        ("a" * 100_000, {}),
    ],
)
def test_common_metrics_are_found_in_ordinary_lines(line: str, found: dict[str, float]) -> None:
    assert common_metrics(line) == pytest.approx(found, nan_ok=True)


def test_steps_times_batch_size_give_samples(tmp_path: Path) -> None:
    reader = LogProgress(
        log(tmp_path, "step 10 | loss 2.5\n", 1001.0), r"step (?P<step>\d+) \| loss (?P<loss>\S+)", 1000.0, 32
    )
    reader.read(1001.1)
    log(tmp_path, "noise\nstep 20 | loss 1.5\nstep 3", 1003.0)
    progress = reader.read(1003.2)
    assert progress.points == (Point(1.0, 10, 320), Point(3.0, 20, 640))
    assert progress.metrics == (MetricPoint(1.0, 10, "loss", 2.5), MetricPoint(3.0, 20, "loss", 1.5))


def test_the_last_line_of_a_program_that_ended_counts_without_its_end(tmp_path: Path) -> None:
    reader = LogProgress(log(tmp_path, "step 10\n\rstep 20\rstep 30", 1001.0), r"step (?P<step>\d+)", 1000.0)
    assert reader.read(1001.1).samples == 20
    assert reader.read(1001.2, ended=True).samples == 30
    assert reader.read(1001.3, ended=True).samples == 30


def test_a_log_of_any_length_is_read_to_its_end_once_the_program_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mlcd.clouds.log_progress._MOST_BYTES", 64)
    file = log(tmp_path, "".join(f"step {n}\n" for n in range(1, 101)), 1010.0)
    assert LogProgress(file, r"step (?P<step>\d+)", 1000.0).read(1010.0).samples < 100
    assert LogProgress(file, r"step (?P<step>\d+)", 1000.0).read(1010.0, ended=True).samples == 100


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


EPOCH = r"epoch (?P<epoch>[\d.]+)"


def test_epochs_that_are_counted_from_zero_are_all_counted(tmp_path: Path) -> None:
    file = log(tmp_path, "".join(f"epoch {number}\n" for number in range(5)), 1.0)
    assert LogProgress(file, EPOCH, 0.0, 10, 500).read(1.0).samples == 5 * 500


def test_epochs_counted_from_zero_go_on_from_a_checkpoint(tmp_path: Path) -> None:
    file = log(tmp_path, "epoch 3\nepoch 4\n", 1.0)
    assert LogProgress(file, EPOCH, 0.0, 10, 500, samples_before=1500.0).read(1.0).samples == 2 * 500


def test_epochs_counted_from_one_go_on_from_a_checkpoint(tmp_path: Path) -> None:
    file = log(tmp_path, "epoch 4\nepoch 5\n", 1.0)
    assert LogProgress(file, EPOCH, 0.0, 10, 500, samples_before=1500.0).read(1.0).samples == 2 * 500


def test_an_epoch_that_is_a_measure_begins_at_nothing(tmp_path: Path) -> None:
    file = log(tmp_path, "epoch 0.0\nepoch 0.5\n", 1.0)
    assert LogProgress(file, EPOCH, 0.0, 10, 500).read(1.0).samples == 250


def test_steps_counted_from_zero_in_every_epoch_add_up(tmp_path: Path) -> None:
    file = log(tmp_path, "step 0\nstep 1\nstep 2\n" * 2, 1.0)
    assert LogProgress(file, r"step (?P<step>\d+)", 0.0, 2).read(1.0).samples == 12


def test_a_program_that_counts_on_is_counted_from_where_it_began(tmp_path: Path) -> None:
    file = log(tmp_path, "samples=1,100\n", 1.0)
    progress = LogProgress(file, r"samples=(?P<samples>[\d,]+)", 0.0, samples_before=1000).read(1.0)
    assert progress.samples == 100


def test_a_bar_that_is_drawn_over_makes_lines(tmp_path: Path) -> None:
    file = log(tmp_path, "loss=3\rloss=2\rloss=1\r", 1.0)
    assert [m.value for m in LogProgress(file, "", 0.0).read(1.0).metrics] == [3, 2, 1]


def test_a_metric_may_be_nan_and_a_count_may_not(tmp_path: Path) -> None:
    file = log(tmp_path, "step 1 loss 0.5\nstep nan loss nan\n", 1.0)
    progress = LogProgress(file, r"step (?P<step>\S+) loss (?P<loss>\S+)", 0.0, 10).read(1.0)
    assert progress.samples == 10
    first, second = (point.value for point in progress.metrics)
    assert first == 0.5
    assert math.isnan(second)


def test_a_missing_log_and_an_invalid_pattern_are_no_progress(tmp_path: Path) -> None:
    assert LogProgress(tmp_path / "none.log", "", 0.0).read(1.0) == Progress()
    assert LogProgress(log(tmp_path, "step 1\n", 1.0), r"step (?P<step>", 0.0).read(1.0) == Progress()


@pytest.mark.slow
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


def test_metrics_of_report_and_log_are_merged_by_name() -> None:
    size, own = MetricPoint(0.5, 1, "mlcd/parameters", 850.0), MetricPoint(2.0, 20, "accuracy", 0.9)
    reported = Progress(points=(Point(1, 1, 1),), metrics=(size, own))
    loss, same_name = MetricPoint(1.0, 10, "loss", 0.7), MetricPoint(3.0, 30, "accuracy", 0.1)
    both = combine(reported, Progress(metrics=(loss, same_name)))
    assert both == Progress(reported.points, (size, loss, own))
    assert (both.latest("loss"), both.latest("accuracy")) == (0.7, 0.9)


@pytest.mark.parametrize("what", ["pipe", "/dev/zero", "a link"])
def test_a_log_that_is_no_file_of_its_own_is_not_read(tmp_path: Path, what: str) -> None:
    """The program may put anything in its place; a pipe would never be opened, and a device never end."""
    other = tmp_path / "other"
    other.write_text("step 7\n")
    file = tmp_path / "node-0.log"
    if what == "pipe":
        os.mkfifo(file)
    else:
        file.symlink_to(what if what.startswith("/") else other)
    progress = LogProgress(file, r"step (?P<step>\d+)", 0.0).read(1.0, ended=True)
    assert progress.points == ()


def test_a_log_of_any_length_is_read_to_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_progress, "_MOST_BYTES", 100)
    monkeypatch.setattr(log_progress, "_MOST_PIECES", 3)
    file = log(tmp_path, "step 7\n", 1.0)
    os.truncate(file, 1 << 40)
    assert LogProgress(file, r"step (?P<step>\d+)", 0.0).read(1.0, ended=True).points[-1].steps == 7
