import json
import math
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from mlcd.clouds import progress_files
from mlcd.clouds.progress_files import (
    LONGEST_NAME,
    MOST_METRICS,
    MOST_POINTS,
    ProgressReader,
)


def write(folder: Path, rank: int, t: float, steps: float, samples: float, **more: object) -> None:
    with (folder / f"rank-{rank}.jsonl").open("a") as file:
        file.write(json.dumps({"t": t, "steps": steps, "samples": samples, **more}) + "\n")


def test_no_folder_is_no_progress(tmp_path: Path) -> None:
    progress = ProgressReader(tmp_path / "nowhere", 0.0).read()
    assert (progress.points, progress.metrics) == ((), ())


@pytest.mark.parametrize("what", ["pipe", "/dev/zero", "a link"])
def test_what_is_no_file_of_its_own_is_not_read(tmp_path: Path, what: str) -> None:
    """A pipe would never be opened, a device never end, and a link may lead to what is none of the program's."""
    (tmp_path / "elsewhere").mkdir()
    write(tmp_path / "elsewhere", 2, 1.0, 99, 99)
    odd = tmp_path / "rank-2.jsonl"
    if what == "pipe":
        os.mkfifo(odd)
    else:
        odd.symlink_to(what if what.startswith("/") else tmp_path / "elsewhere" / "rank-2.jsonl")
    write(tmp_path, 0, 1.0, 1, 32)
    with in_little_memory():
        assert ProgressReader(tmp_path, 0.0).read().samples == 32


def test_a_file_is_read_in_pieces_and_the_rest_at_the_next_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress_files, "PIECE_BYTES", 100)
    monkeypatch.setattr(progress_files, "MOST_PIECES", 2)
    for tick in range(8):
        write(tmp_path, 0, float(tick), tick, tick)
    reader = ProgressReader(tmp_path, 0.0)
    seen = [reader.read().samples for _ in range(6)]
    assert seen == sorted(seen)
    assert 0 < seen[0] < 7
    assert seen[-1] == 7


def test_a_line_without_an_end_does_not_hold_up_what_comes_after(tmp_path: Path) -> None:
    with (tmp_path / "rank-0.jsonl").open("wb") as file:
        file.truncate(60 << 20)
        file.seek(0, 2)
        file.write(b"\n")
    write(tmp_path, 0, 1.0, 1, 32)
    with in_little_memory():
        assert ProgressReader(tmp_path, 0.0).read().samples == 32


@contextmanager
def in_little_memory() -> Iterator[None]:
    """Fails at the first attempt to take 40 MiB more."""
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + (40 << 20), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def test_one_rank_gives_its_lines_as_points_since_the_launch(tmp_path: Path) -> None:
    write(tmp_path, 0, 1001.0, 1, 32, metrics={"loss": 2.5})
    write(tmp_path, 0, 1002.0, 3, 96, metrics={"loss": 1.5}, step=7)
    progress = ProgressReader(tmp_path, 1000.0).read()
    assert [(p.seconds, p.steps, p.samples) for p in progress.points] == [(1.0, 1, 32), (2.0, 3, 96)]
    assert [(m.seconds, m.step, m.value) for m in progress.metrics] == [(1.0, 1, 2.5), (2.0, 7, 1.5)]
    assert progress.latest("loss") == 1.5


def test_samples_are_summed_over_ranks_at_the_same_moment(tmp_path: Path) -> None:
    for tick in range(20):  # both do 10 samples a second; their lines never fall together
        write(tmp_path, 0, tick * 0.5, tick * 5, tick * 5)
        write(tmp_path, 1, tick * 0.5 + 0.25, tick * 5 + 2.5, tick * 5 + 2.5)
    points = ProgressReader(tmp_path, 0.0).read().points
    rates = [(right.samples - left.samples) / (right.seconds - left.seconds) for left, right in pairwise(points[1:])]
    assert rates == pytest.approx([20.0] * len(rates))
    assert len(rates) > 10


def test_steps_are_those_of_the_rank_that_has_done_most(tmp_path: Path) -> None:
    write(tmp_path, 0, 5.0, 10, 100, end=True)
    write(tmp_path, 1, 5.0, 11, 110, end=True)
    assert (ProgressReader(tmp_path, 0.0).read().steps, ProgressReader(tmp_path, 0.0).read().samples) == (
        11,
        210,
    )


def test_the_last_lines_of_ranks_that_ended_at_different_moments_all_count(tmp_path: Path) -> None:
    write(tmp_path, 0, 5.0, 10, 100, end=True)
    write(tmp_path, 1, 5.4, 10, 100, end=True)
    assert ProgressReader(tmp_path, 0.0).read().samples == 200


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
    assert ProgressReader(tmp_path, 0.0).read().samples == 600


def test_a_second_process_of_the_same_rank_adds_to_the_first(tmp_path: Path) -> None:
    write(tmp_path, 0, 1.0, 10, 100, process="a", end=True)
    write(tmp_path, 0, 9.0, 2, 20, process="b")
    progress = ProgressReader(tmp_path, 0.0).read()
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
        b'{"t": 1, "steps": 1, "samples": 1' + b"0" * 400 + b"}",
        b"[" * 100_000,
    ],
)
def test_a_line_that_is_none_is_skipped(tmp_path: Path, garbage: bytes) -> None:
    write(tmp_path, 0, 1.0, 1, 10)
    with (tmp_path / "rank-0.jsonl").open("ab") as stream:
        stream.write(garbage + b"\n")
    write(tmp_path, 0, 2.0, 2, 20)
    assert [point.samples for point in ProgressReader(tmp_path, 0.0).read().points] == [10, 20]


def test_a_clock_that_goes_back_does_not_turn_progress_round(tmp_path: Path) -> None:
    for t, steps in [(5.0, 1), (3.0, 2), (6.0, 3)]:
        write(tmp_path, 0, t, steps, steps * 10)
    points = ProgressReader(tmp_path, 0.0).read().points
    assert points == tuple(sorted(points, key=lambda point: (point.seconds, point.samples)))
    assert points[-1].samples == 30


def test_reading_piece_by_piece_gives_what_reading_at_once_gives(tmp_path: Path) -> None:
    reader = ProgressReader(tmp_path, 0.0)
    for tick in range(50):
        write(tmp_path, tick % 3, tick * 0.2, tick, tick * 10, metrics={"loss": float(tick)})
        piecewise = reader.read()
    at_once = ProgressReader(tmp_path, 0.0).read()
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


def test_a_program_cannot_flood_a_line_with_metrics(tmp_path: Path) -> None:
    many = {f"m{number}": 1.0 for number in range(MOST_METRICS + 5)}
    write(tmp_path, 0, 1.0, 1, 1, metrics={"x" * (LONGEST_NAME + 1): 1.0, **many})
    names = {metric.name for metric in ProgressReader(tmp_path, 0.0).read().metrics}
    assert len(names) == MOST_METRICS
    assert max(map(len, names)) <= LONGEST_NAME


def test_a_metric_that_is_not_finite_is_read(tmp_path: Path) -> None:
    write(tmp_path, 0, 1.0, 1, 10, metrics={"loss": "nan", "norm": "-inf", "name": "abc", "acc": 0.5})
    values = {point.name: point.value for point in ProgressReader(tmp_path, 0.0).read().metrics}
    assert math.isnan(values.pop("loss"))
    assert values == {"norm": -math.inf, "acc": 0.5}


def test_what_ranks_train_for_themselves_is_counted_once(tmp_path: Path) -> None:
    for rank in range(2):
        lines = [{"t": 100.0 + n, "steps": n, "samples": 10 * n, "process": "p", "alone": True} for n in range(1, 5)]
        (tmp_path / f"rank-{rank}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    progress = ProgressReader(tmp_path, 100.0).read()
    assert progress.alone
    assert progress.samples == 40


def test_ranks_that_find_each_other_later_are_added_up(tmp_path: Path) -> None:
    for rank in range(2):
        lines = [
            {
                "t": 100.0 + n,
                "steps": n,
                "samples": 10 * n,
                "process": "p",
                **({"alone": True} if n < 2 else {}),
            }
            for n in range(1, 5)
        ]
        (tmp_path / f"rank-{rank}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    progress = ProgressReader(tmp_path, 100.0).read()
    assert not progress.alone
    assert progress.samples == 80


def test_the_count_at_a_save_is_found_by_the_time_of_the_file(tmp_path: Path) -> None:
    line = {"t": 101.0, "steps": 1, "samples": 10, "process": "p", "saved": [100.25, 1010.0]}
    (tmp_path / "rank-0.jsonl").write_text(json.dumps(line) + "\n")
    reader = ProgressReader(tmp_path, 100.0)
    reader.read()
    assert reader.saves == {100.25: 1010.0}
