from __future__ import annotations

from pathlib import Path

import pytest

from mlcd.errors import NotFoundError, UserError
from mlcd_bench.models.measurements import read_noise, read_step_times

NOISE = "workload,batch_size,epoch,samples,noise_scale_samples\nmine,32,0,1000,75.5\nmine,32,1,2000,-1\n"
STEPS = "workload,instance,nodes,gpus,local_batch,step_time_s\nmine,t4,2,4,32,0.25\n"


def test_files_are_known_by_their_columns(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(STEPS)
    (tmp_path / "b.csv").write_text(NOISE)
    (tmp_path / "c.csv").write_text("x,y\n1,2\n")
    (noise, later), (step,) = read_noise(tmp_path), read_step_times(tmp_path)
    assert (noise.batch, noise.samples, noise.noise_scale) == (32, 1000, 75.5)
    assert later.noise_scale is None  # an estimate below zero is none
    assert (step.gpus, step.step_seconds, step.sync_seconds) == (4, 0.25, None)


def test_a_cell_that_is_no_number_is_named(tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text(NOISE.replace("1000", "many"))
    with pytest.raises(UserError, match=r"line 2, column 'samples': 'many'"):
        read_noise(tmp_path)


def test_a_missing_folder_is_said(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no folder"):
        read_noise(tmp_path / "gone")
