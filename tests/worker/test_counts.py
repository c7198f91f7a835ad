import time

import pytest

from mlcd.worker.counts import Counts


def test_nothing_is_counted_at_first() -> None:
    assert Counts().now[1:] == (0, 0.0)


def test_a_loop_is_believed_before_the_optimizers_hook() -> None:
    counts = Counts()
    counts.set_hooked(1, 32)
    counts.add_loop(1, 16)
    counts.add_loop(1, 16)
    counts.set_hooked(2, 64)
    assert counts.now[1:] == (2, 32)


def test_samples_told_by_the_program_are_believed_before_all_else() -> None:
    counts = Counts()
    counts.add_loop(3, 30)
    counts.report(None, 300)
    assert counts.now[1:] == (3, 300)


def test_a_step_told_beside_a_metric_does_not_replace_what_was_counted() -> None:
    counts = Counts()
    counts.set_hooked(500, 16000)
    counts.report(2, None)
    assert counts.now[1:] == (500, 16000)


def test_steps_told_alone_are_multiplied_by_the_local_batch_size() -> None:
    counts = Counts(local_batch_size=8)
    counts.report(10, None)
    assert counts.now[1:] == (10, 80)


def test_what_was_told_never_falls() -> None:
    counts = Counts()
    counts.report(None, 100)
    counts.report(None, 50)
    assert counts.now.samples == 100


def test_samples_told_without_a_step_are_a_step_each_time_they_grow() -> None:
    counts = Counts()
    for samples in (32, 64, 64, 96):
        counts.report(None, samples)
    assert counts.now[1:] == (3, 96)


def test_what_was_done_at_a_save_is_the_count_of_the_step_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = Counts(remember=100)
    for step, moment in enumerate((10.0, 10.2, 10.4), start=1):
        monkeypatch.setattr("mlcd.worker.counts.time.time", lambda moment=moment: moment)
        counts.set_hooked(step, 32.0 * step)
    monkeypatch.setattr("mlcd.worker.counts.time.time", lambda: 11.0)
    assert [counts.at(moment)[1:] for moment in (9.0, 10.1, 10.3, 10.9)] == [  # type: ignore[index]
        (0, 0.0),
        (1, 32.0),
        (2, 64.0),
        (3, 96.0),
    ]


def test_of_steps_within_a_tick_of_the_files_clock_the_one_before_the_longest_pause_was_saved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counts = Counts(remember=100)
    for step, moment in enumerate((10.000, 10.002, 10.004, 10.009), start=1):
        monkeypatch.setattr("mlcd.worker.counts.time.time", lambda moment=moment: moment)
        counts.set_hooked(step, float(step))
    monkeypatch.setattr("mlcd.worker.counts.time.time", lambda: 10.011)
    monkeypatch.setattr("mlcd.worker.counts.time.clock_getres", lambda clock: 0.01)
    saved = counts.at(10.001)  # written at 10.006, by a clock that ticks every 10 ms
    assert saved is not None
    assert saved.steps == 3


def test_a_save_that_was_seen_to_begin_is_known_though_the_files_clock_is_two_ticks_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counts = Counts(remember=100)
    for step, moment in enumerate((10.000, 10.301, 10.302, 10.304), start=1):  # after a long pause
        monkeypatch.setattr("mlcd.worker.counts.time.time", lambda moment=moment: moment)
        counts.set_hooked(step, float(step))
        if step == 3:
            counts.mark_save()
    monkeypatch.setattr("mlcd.worker.counts.time.clock_getres", lambda clock: 0.004)
    saved = counts.at(10.294)
    assert saved is not None
    assert saved.steps == 3


def test_a_batch_that_a_loop_is_busy_with_is_in_what_it_saves(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = Counts(remember=100)
    moments = iter(range(10, 100))
    monkeypatch.setattr("mlcd.worker.counts.time.time", lambda: float(next(moments)))
    counts.begin_batch(8.0)  # 10
    counts.add_loop(1, 8.0)  # 11 and 12: the first sees when counting began
    counts.begin_batch(8.0)  # 13
    counts.add_loop(1, 8.0)  # 14
    assert [counts.at(moment)[2] for moment in (9.5, 10.5, 12.5, 13.5, 20.0)] == [0.0, 8.0, 8.0, 16.0, 16.0]  # type: ignore[index]


def test_a_save_longer_ago_than_is_remembered_has_no_count() -> None:
    counts = Counts(remember=2)
    for step in range(5):
        counts.set_hooked(step, float(step))
    assert counts.at(1.0) is None


def test_a_pace_needs_two_counts_and_knows_nothing_of_earlier_runs() -> None:
    counts = Counts()
    counts.report(10_000, None)
    assert counts.steps_per_second == 0.0
    time.sleep(0.05)
    counts.report(10_001, None)
    assert 0.0 < counts.steps_per_second <= 20.0
