import os
import signal
from pathlib import Path

import numpy as np
import pytest

import mlcd
from worker.sessions import Inside, lines

LOADER = [np.zeros((4, 2)) for _ in range(10)]


def test_outside_mlcd_all_batches_come_and_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("mlcd.worker.session._session", None)
    assert len(list(mlcd.steps(LOADER))) == 10
    mlcd.report(loss=0.5)
    assert not mlcd.stopping()
    assert mlcd.last_checkpoint() is None
    assert list(tmp_path.iterdir()) == []
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_steps_and_samples_are_counted_and_reported_on_exit(inside: Inside, tmp_path: Path) -> None:
    session = inside()
    for _ in mlcd.steps(LOADER):
        pass
    session.reporter.end()
    last = lines(tmp_path / "progress")[-1]
    assert (last["steps"], last["samples"], last["end"]) == (10, 40.0, True)


def test_the_loop_ends_when_the_work_of_all_ranks_is_done(inside: Inside) -> None:
    inside(MLCD_WORK_SAMPLES=100, MLCD_SAMPLES_BEFORE=60, WORLD_SIZE=2)
    assert len(list(mlcd.steps(LOADER))) == 5  # 60 + 5 × 4 × 2 = 100
    assert mlcd.stopping()
    assert list(mlcd.steps(LOADER)) == []


def test_the_loop_ends_when_the_target_is_reached(inside: Inside) -> None:
    inside(MLCD_TARGET='{"metric": "acc", "value": 0.75, "direction": "up"}')
    seen = 0
    for _ in mlcd.steps(LOADER):
        seen += 1
        mlcd.report(acc=0.25 * seen)
    assert seen == 3


def test_the_loop_ends_at_the_next_batch_after_sigterm(inside: Inside) -> None:
    inside()
    seen = 0
    for _ in mlcd.steps(LOADER):
        seen += 1
        if seen == 4:
            os.kill(os.getpid(), signal.SIGTERM)
    assert seen == 4
    assert mlcd.stopping()


def test_a_handler_of_the_programs_own_is_left_alone(inside: Inside) -> None:
    inside()
    heard: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    try:
        for _ in mlcd.steps(LOADER[:2]):
            os.kill(os.getpid(), signal.SIGTERM)
        assert heard == [signal.SIGTERM] * 2
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def test_errors_of_the_loader_and_of_the_body_pass_through(inside: Inside) -> None:
    inside()
    with pytest.raises(ZeroDivisionError):
        list(mlcd.steps(1 // 0 for _ in range(3)))
    with pytest.raises(KeyError):
        _fail_in_the_body()


def _fail_in_the_body() -> None:
    for _ in mlcd.steps(LOADER):
        raise KeyError


def test_a_broken_session_does_not_reach_the_training(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    session = inside()
    with monkeypatch.context() as damage:
        damage.setattr(session, "stop", None)
        damage.setattr(session, "counts", None)
        assert not mlcd.stopping()
        mlcd.report(loss=1.0, step=3)


def test_a_loop_has_the_length_of_its_loader() -> None:
    assert len(mlcd.steps(LOADER)) == 10
    with pytest.raises(TypeError):
        len(mlcd.steps(iter(LOADER)))
