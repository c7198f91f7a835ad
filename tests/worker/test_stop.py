import os
import signal
from pathlib import Path

import pytest

from mlcd.worker import complete_checkpoints
from worker.programs import finish, free_port, start, wait_for
from worker.sessions import lines

RANKS = """
import os, time, torch, torch.distributed as dist
import mlcd

dist.init_process_group("gloo")
total = torch.zeros(1)
for batch in mlcd.steps([[1, 2]] * 100_000):
    dist.all_reduce(total)
    time.sleep(0.01)
    WHAT
with mlcd.checkpoint() as folder:
    (folder / "state.txt").write_text("saved")
print("steps", mlcd.worker.session.current().counts.now.steps)
dist.destroy_process_group()
"""


def run_two_ranks(tmp_path: Path, what: str, **variables: object) -> list[str]:
    """Train on two ranks, tell the second to stop, and give what both printed last."""
    group = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": free_port(),
        "WORLD_SIZE": 2,
        "GLOO_SOCKET_IFNAME": "lo",
    }
    program = RANKS.replace("WHAT", what)
    ranks = [start(program, tmp_path, RANK=rank, **group, **variables) for rank in range(2)]
    try:
        if what == "pass":
            wait_for((tmp_path / "progress" / "rank-1.jsonl").exists)
            ranks[1].send_signal(signal.SIGTERM)
        return [finish(rank).strip().splitlines()[-1] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()


@pytest.mark.slow
def test_ranks_end_at_the_same_step_when_one_is_told_to_stop(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    first, second = run_two_ranks(tmp_path, "pass")
    assert first == second
    (saved,) = complete_checkpoints(tmp_path / "checkpoints")
    assert saved.facts.samples == 4 * saved.facts.steps
    assert lines(tmp_path / "progress", 0)[-1]["steps"] == lines(tmp_path / "progress", 1)[-1]["steps"]


@pytest.mark.slow
def test_ranks_end_at_the_same_step_when_only_the_first_sees_the_target(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    what = "mlcd.report(acc=1.0) if dist.get_rank() == 0 else None"
    first, second = run_two_ranks(tmp_path, what, MLCD_TARGET='{"metric": "acc", "value": 1.0, "direction": "up"}')
    assert first == second


@pytest.mark.slow
def test_a_stop_of_the_whole_group_leaves_time_to_save_even_with_loader_workers(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    program = """
    import time, torch, mlcd
    from torch.utils.data import DataLoader, TensorDataset

    loader = DataLoader(TensorDataset(torch.zeros(100_000, 2)), batch_size=2, num_workers=2)
    for batch in mlcd.steps(loader):
        time.sleep(0.01)
    time.sleep(0.5)  # saving takes a while
    with mlcd.checkpoint() as folder:
        (folder / "state.txt").write_text("saved")
    """
    process = start(program, tmp_path)
    wait_for((tmp_path / "progress" / "rank-0.jsonl").exists)
    os.killpg(process.pid, signal.SIGTERM)
    finish(process)
    assert len(complete_checkpoints(tmp_path / "checkpoints")) == 1


@pytest.mark.slow
def test_ranks_that_are_told_to_stop_shortly_before_the_work_is_done_do_no_more_than_the_work(
    tmp_path: Path,
) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    # The wish comes at step 60; the step that is agreed on lies about half a second, fifty steps, ahead.
    what = "mlcd.report(acc=1.0) if dist.get_rank() == 0 and mlcd.worker.session.current().counts.now.steps == 60 else None"
    target = '{"metric": "acc", "value": 0.5, "direction": "up"}'
    printed = run_two_ranks(tmp_path, what, MLCD_TARGET=target, MLCD_WORK_SAMPLES=4 * 100)
    assert printed[0] == printed[1]
    assert int(printed[0].split()[1]) <= 100
