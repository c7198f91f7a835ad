"""What workers keep of their newest iteration outlives their programs, and is handed to those who have less."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlcd.sync import Group, join
from mlcd.sync.kept import Kept
from mlcd.worker.checkpoints import Facts

Workers = Callable[..., list[Any]]
FACTS = Facts(samples=640.0, steps=20, task_id="task-1", reported=(20.0, 320.0))


def state(value: float) -> list[np.ndarray]:
    return [np.full((3, 4), value, np.float32), np.full(5, -float(value))]


def kept_by(folder: Path, *steps: int) -> Kept:
    kept = Kept(folder)
    for step in steps:
        kept.write(step, replace(FACTS, steps=step), state(step))
    return kept


def test_the_newest_of_two_states_is_found_by_another_program(tmp_path: Path) -> None:
    kept_by(tmp_path, 7, 8, 9)
    found = Kept(tmp_path).newest(state(0))
    assert found is not None
    assert (found.step, found.facts) == (9, replace(FACTS, steps=9))
    arrays = state(0)
    Kept(tmp_path).load(found, arrays)
    for array, expected in zip(arrays, state(9), strict=True):
        np.testing.assert_array_equal(array, expected)


def test_a_program_that_goes_on_does_not_write_over_the_newest(tmp_path: Path) -> None:
    kept_by(tmp_path, 7, 8)
    again = Kept(tmp_path)
    assert again.newest(state(0)) is not None
    again.write(9, FACTS, state(9))
    assert {found.step for slot in (0, 1) if (found := again._read(slot, state(0))) is not None} == {8, 9}


def test_a_state_of_other_arrays_is_none_of_ours(tmp_path: Path) -> None:
    kept_by(tmp_path, 7)
    assert Kept(tmp_path).newest([np.zeros(5)]) is None


def test_what_is_cut_off_in_the_middle_leaves_the_state_before(tmp_path: Path) -> None:
    kept_by(tmp_path, 7, 8)
    newest = Kept(tmp_path).newest(state(0))
    assert newest is not None
    with newest.file.open("r+b") as stream:  # as a write that has begun
        stream.write(b"\0")
    before = Kept(tmp_path).newest(state(0))
    assert before is not None
    assert before.step == 7


WRITES = """
import sys, numpy as np
from pathlib import Path
from mlcd.sync.kept import Kept
from mlcd.worker.checkpoints import Facts
kept, array, step = Kept(Path(sys.argv[1])), np.zeros(2_000_000), 0
while True:
    step += 1
    array[:] = step
    kept.write(step, Facts(samples=float(step)), [array])
    print(step, flush=True)
"""


@pytest.mark.slow
def test_killed_at_any_moment_a_whole_state_is_left_no_more_than_one_behind(tmp_path: Path) -> None:
    for pause in (0.01, 0.033, 0.07):
        program = subprocess.Popen([sys.executable, "-c", WRITES, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        assert program.stdout is not None
        program.stdout.readline()
        time.sleep(pause)
        program.send_signal(signal.SIGKILL)
        last = int(
            ([line for line in program.stdout.read().splitlines(keepends=True) if line.endswith("\n")] or ["1"])[-1]
        )
        program.wait()
        array = np.zeros(2_000_000)
        found = Kept(tmp_path).newest([array])
        assert found is not None
        assert last <= found.step + 1
        Kept(tmp_path).load(found, [array])
        assert set(np.unique(array)) == {float(found.step)}
        for file in tmp_path.iterdir():
            file.unlink()


def test_a_model_of_a_thousand_arrays_is_kept(tmp_path: Path) -> None:
    arrays = [np.full(2, number, np.float32) for number in range(1000)]
    Kept(tmp_path).write(3, FACTS, arrays)
    found = Kept(tmp_path).newest(arrays)
    assert found is not None
    assert found.step == 3
    assert Kept(tmp_path).newest(arrays[1:]) is None


def test_what_finds_no_room_takes_none_and_leaves_the_state_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = kept_by(tmp_path, 7)

    def full(handle: int, start: int, size: int) -> None:
        os.write(handle, b"as much as there was room for")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="No space left"):
        kept.write(8, FACTS, state(8))
    assert [file.name for file in tmp_path.iterdir()] == ["0"]
    found = Kept(tmp_path).newest(state(0))
    assert found is not None
    assert found.step == 7


def test_all_workers_get_the_newest_state_that_one_of_them_has(
    workers: Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group_name: str
) -> None:
    kept_by(tmp_path / group_name, 7, 8)
    monkeypatch.setenv("MLCD_SYNC_KEEP", str(tmp_path))

    def work(group: Group) -> tuple[int, list[np.ndarray]]:
        if group.rank != 1:
            group._kept = None  # a newcomer has nothing
        arrays = state(5.0 + group.rank)  # the checkpoint's
        return group.restore(arrays, 5), arrays

    for step, arrays in workers(3, work, name=group_name):
        assert step == 8
        np.testing.assert_array_equal(arrays[0], state(8)[0])
        np.testing.assert_array_equal(arrays[1], state(8)[1])


def test_a_newcomer_can_hand_on_at_once_what_it_was_given(
    workers: Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group_name: str
) -> None:
    """Two losses in a row: the one that had the state is lost before the newcomer has done a step."""
    kept_by(tmp_path / group_name, 7, 8)
    monkeypatch.setenv("MLCD_SYNC_KEEP", str(tmp_path))

    def work(group: Group) -> None:
        if group.rank == 1:
            group._kept = Kept(tmp_path / "newcomer")
        group.restore(state(5), 5)

    workers(2, work, name=group_name)
    found = Kept(tmp_path / "newcomer").newest(state(0))
    assert found is not None
    assert found.step == 8
    arrays = state(0)
    Kept(tmp_path / "newcomer").load(found, arrays)
    np.testing.assert_array_equal(arrays[1], state(8)[1])


def test_a_newer_checkpoint_is_better_than_what_was_kept(
    workers: Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group_name: str
) -> None:
    kept_by(tmp_path / group_name, 7, 8)
    monkeypatch.setenv("MLCD_SYNC_KEEP", str(tmp_path))

    def work(group: Group) -> tuple[int, list[np.ndarray]]:
        arrays = state(9.0)
        return group.restore(arrays, 9), arrays

    for step, arrays in workers(2, work, name=group_name):
        assert step == 9
        np.testing.assert_array_equal(arrays[0], state(9)[0])


def test_fresh_workers_begin_with_the_weights_of_the_first(workers: Workers) -> None:
    def work(group: Group) -> list[np.ndarray]:
        arrays = state(group.rank)
        assert group.restore(arrays) == 0
        return arrays

    for arrays in workers(2, work):
        np.testing.assert_array_equal(arrays[0], state(0)[0])


def test_without_room_the_training_goes_on_and_says_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sync").write_text("in the way")
    monkeypatch.setenv("MLCD_SYNC_KEEP", str(tmp_path))
    with join(rank=0, world_size=1) as group:
        for step in range(3):
            group.keep(state(1), step)
    assert capsys.readouterr().err.count("the newest iteration is not kept") == 1


def test_mlcd_counts_on_from_a_restored_state(tmp_path: Path) -> None:
    program = """
import numpy as np, mlcd
from mlcd.sync import join
with join() as group:
    step = group.restore([np.zeros(5)], 0)
    for batch in mlcd.steps([[0] * 16] * 100):
        step += 1
        group.keep([np.zeros(5)], step)
        if step == 25:
            break
print("at", step, mlcd.worker.session.current().stop.total_samples())
"""
    env = {
        **os.environ,
        "MLCD_TASK_ID": "task-1",
        "MLCD_PROGRESS_DIR": str(tmp_path / "progress"),
        "MLCD_SYNC_KEEP": str(tmp_path),
    }
    kept = Kept(tmp_path / "sync")
    kept.write(20, Facts(samples=320.0, steps=20), [np.zeros(5)])
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "at 25 400.0"
    last = (tmp_path / "progress" / "rank-0.jsonl").read_text().splitlines()[-1]
    assert '"steps": 25, "samples": 400.0' in last
    found = Kept(tmp_path / "sync").newest([np.zeros(5)])
    assert found is not None
    assert (found.step, found.facts.samples) == (25, 400.0)


def test_a_program_that_finds_all_done_says_so(tmp_path: Path) -> None:
    """It was killed after its last step, before its report had come home."""
    program = """
import numpy as np, mlcd
from mlcd.sync import join
with join() as group:
    assert group.restore([np.zeros(5)], 0) == 20
"""
    env = {
        **os.environ,
        "MLCD_TASK_ID": "task-1",
        "MLCD_PROGRESS_DIR": str(tmp_path / "progress"),
        "MLCD_SYNC_KEEP": str(tmp_path),
    }
    Kept(tmp_path / "sync").write(20, Facts(samples=320.0, steps=20), [np.zeros(5)])
    began = time.time()
    subprocess.run([sys.executable, "-c", program], env=env, check=True)
    last = json.loads((tmp_path / "progress" / "rank-0.jsonl").read_text().splitlines()[-1])
    assert (last["steps"], last["samples"], last["end"]) == (20, 320.0, True)
    assert last["t"] >= began - 1.0
