"""The benchmark of benchmarks/function_sync: every way gives the same sum, and it ends where a part of it fails."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import pytest

MEASURE = Path(__file__).parents[2] / "benchmarks" / "function_sync" / "measure.py"


def test_a_server_that_does_not_start_ends_the_benchmark_and_is_named(tmp_path: Path) -> None:
    rclone = tmp_path / "rclone"
    rclone.write_text("#!/bin/sh\nexit 3\n")
    rclone.chmod(0o755)
    options = ["--workers", "1", "--millions", "0.01", "--rounds", "1", "--out", str(tmp_path / "out")]
    done = subprocess.run(
        [sys.executable, str(MEASURE), *options, "--systems", "Siren, S3"],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1
    assert f"The S3 server ended with exit code 3: ['{rclone}'" in done.stderr
    assert "A server did not start" in done.stderr


@pytest.mark.slow
def test_the_best_versions_of_the_rivals_give_the_right_sum(tmp_path: Path) -> None:
    """Every result is compared with the sum in the workers; a wrong one ends them."""
    options = ["--workers", "1", "3", "--millions", "0.3", "--rounds", "3", "--out", str(tmp_path / "out")]
    done = subprocess.run(
        [sys.executable, str(MEASURE), *options, "--systems", "LambdaML, 4 Valkeys", "Cirrus", "Cirrus, pipelined"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("| Cirrus, pipelined |") == 2


def test_a_worker_that_fails_ends_the_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others would wait for its gradients for ever."""
    monkeypatch.syspath_prepend(str(MEASURE.parent))
    measure = importlib.import_module("measure")
    process = multiprocessing.Process(target=sys.exit, args=(3,))
    process.start()
    process.join()
    waiting, _its = multiprocessing.Pipe()
    with pytest.raises(SystemExit, match="Worker 0 ended with exit code 3"):
        measure._result(0, waiting, [process, process])


def test_a_server_whose_children_outlive_it_ends_the_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    """They hold its end of the pipe, which therefore says nothing."""
    monkeypatch.syspath_prepend(str(MEASURE.parent))
    links = importlib.import_module("links")
    process = multiprocessing.Process(target=sys.exit, args=(3,))
    process.start()
    waiting, _its = multiprocessing.Pipe()
    with pytest.raises(SystemExit, match="A server did not start"):
        links._first_word(waiting, process)
