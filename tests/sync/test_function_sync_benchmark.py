"""The benchmark of benchmarks/function_sync ends where one of its servers does not start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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
