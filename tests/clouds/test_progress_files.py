import json
from itertools import pairwise
from pathlib import Path

import pytest

from mlcd.clouds.progress_files import MOST_POINTS, ProgressReader, read_progress


def write(folder: Path, rank: int, t: float, steps: float, samples: float, **more: object) -> None:
    with (folder / f"rank-{rank}.jsonl").open("a") as file:
        file.write(json.dumps({"t": t, "steps": steps, "samples": samples, **more}) + "\n")


def test_no_folder_is_no_progress(tmp_path: Path) -> None:
    progress = read_progress(tmp_path / "nowhere", 0.0)
    assert (progress.points, progress.metrics) == ((), ())


def test_one_rank_gives_its_lines_as_points_since_the_launch(tmp_path: Path) -> None:
    write(tmp_path, 0, 1001.0, 1, 32, metrics={"loss": 2.5})
    write(tmp_path, 0, 1002.0, 3, 96, metrics={"loss": 1.5}, step=7)
    progress = read_progress(tmp_path, 1000.0)
    assert [(p.seconds, p.steps, p.samples) for p in progress.points] == [(1.0, 1, 32), (2.0, 3, 96)]
    assert [(m.seconds, m.step, m.value) for m in progress.metrics] == [(1.0, 1, 2.5), (2.0, 7, 1.5)]
    assert progress.latest("loss") == 1.5


def test_samples_are_summed_over_ranks_at_the_same_moment(tmp_path: Path) -> None:
    for tick in range(20):  # both do 10 samples a second; their lines never fall together
        write(tmp_path, 0, tick * 0.5, tick * 5, tick * 5)
        write(tmp_path, 1, tick * 0.5 + 0.25, tick * 5 + 2.5, tick * 5 + 2.5)
    points = read_progress(tmp_path, 0.0).points
    rates = [
        (right.samples - left.samples) / (right.seconds - left.seconds)
        for left, right in pairwise(points[1:])
    ]
    assert rates == pytest.approx([20.0] * len(rates))
    assert len(rates) > 10


def test_steps_are_those_of_the_rank_that_has_done_most(tmp_path: Path) -> None:
    write(tmp_path, 0, 5.0, 10, 100, end=True)
    write(tmp_path, 1, 5.0, 11, 110, end=True)
    assert (read_progress(tmp_path, 0.0).steps, read_progress(tmp_path, 0.0).samples) == (11, 210)


def test_the_last_lines_of_ranks_that_ended_at_different_moments_all_count(tmp_path: Path) -> None:
    write(tmp_path, 0, 5.0, 10, 100, end=True)
    write(tmp_path, 1, 5.4, 10, 100, end=True)
    assert read_progress(tmp_path, 0.0).samples == 200


def test_a_rank_that_is_heard_of_after_the_others_have_ended_still_counts(tmp_path: Path) -> None:
    reader = ProgressReader(tmp_path, 0.0)
    write(tmp_path, 0, 5.4, 10, 100, end=True)
    assert reader.read().samples == 100
    write(tmp_path, 1, 5.0, 10, 100, end=True)
    assert reader.read().samples == 200
    assert len(reader.read().points) == 1


def test_a_rank_that_fell_silent_does_not_hold_up_the_others(tmp_path: Path) -> None:
    write(tmp_path, 0, 1.0, 1, 10)
    for second in range(1, 60):
        write(tmp_path, 1, float(second), second, second * 10)
    assert read_progress(tmp_path, 0.0).samples == 600


def test_a_second_process_of_the_same_rank_adds_to_the_first(tmp_path: Path) -> None:
    write(tmp_path, 0, 1.0, 10, 100, process="a", end=True)
    write(tmp_path, 0, 9.0, 2, 20, process="b")
    progress = read_progress(tmp_path, 0.0)
    assert (progress.steps, progress.samples) == (12, 120)


def test_a_torn_last_line_is_read_once_it_is_whole(tmp_path: Path) -> None:
    reader = ProgressReader(tmp_path, 0.0)
    write(tmp_path, 0, 1.0, 1, 10)
    file = tmp_path / "rank-0.jsonl"
    with file.open("a") as stream:
        stream.write('{"t": 2.0, "steps"')
    assert reader.read().samples == 10
    with file.open("a") as stream:
        stream.write(': 2, "samples": 20}\n')
    assert reader.read().samples == 20


@pytest.mark.parametrize(
    "garbage",
    [
        b"\xff\xfe\x00",
        b"{}",
        b"[1]",
        b"null",
        b"3",
        b'{"t": "x", "steps": 1, "samples": 1}',
        b'{"t": NaN, "steps": 1, "samples": 1}',
    ],
)
def test_a_line_that_is_none_is_skipped(tmp_path: Path, garbage: bytes) -> None:
    write(tmp_path, 0, 1.0, 1, 10)
    with (tmp_path / "rank-0.jsonl").open("ab") as stream:
        stream.write(garbage + b"\n")
    write(tmp_path, 0, 2.0, 2, 20)
    assert [point.samples for point in read_progress(tmp_path, 0.0).points] == [10, 20]


def test_a_clock_that_goes_back_does_not_turn_progress_round(tmp_path: Path) -> None:
    for t, steps in [(5.0, 1), (3.0, 2), (6.0, 3)]:
        write(tmp_path, 0, t, steps, steps * 10)
    points = read_progress(tmp_path, 0.0).points
    assert points == tuple(sorted(points, key=lambda point: (point.seconds, point.samples)))
    assert points[-1].samples == 30


def test_reading_piece_by_piece_gives_what_reading_at_once_gives(tmp_path: Path) -> None:
    reader = ProgressReader(tmp_path, 0.0)
    for tick in range(50):
        write(tmp_path, tick % 3, tick * 0.2, tick, tick * 10, metrics={"loss": float(tick)})
        piecewise = reader.read()
    at_once = read_progress(tmp_path, 0.0)
    assert piecewise.samples == pytest.approx(at_once.samples)
    assert len(piecewise.metrics) == len(at_once.metrics) == 50


def test_nothing_new_gives_the_same_progress_without_work(tmp_path: Path) -> None:
    reader = ProgressReader(tmp_path, 0.0)
    write(tmp_path, 0, 1.0, 1, 10)
    assert reader.read() is reader.read()


def test_a_long_training_is_thinned_and_keeps_its_ends(tmp_path: Path) -> None:
    reader = ProgressReader(tmp_path, 0.0)
    for start in range(0, 9000, 300):
        for tick in range(start, start + 300):
            rare = {"val": 1.0} if tick % 1000 == 0 else {}
            write(tmp_path, 0, tick * 0.5, tick, tick * 10, metrics={"loss": 1.0, **rare})
        progress = reader.read()
    assert len(progress.points) <= MOST_POINTS
    assert (progress.points[0].samples, progress.points[-1].samples) == (0, 89990)
    assert len(progress.metrics) <= 2 * MOST_POINTS
    assert sum(metric.name == "val" for metric in progress.metrics) >= 2
