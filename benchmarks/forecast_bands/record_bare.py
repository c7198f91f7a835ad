"""Records probes and trainings where mlcd's engine cannot be installed: `python record_bare.py RUNS.json SECONDS [BUSY_LOOPS]`.

Needs no more than NumPy, SciPy and torch. Programs run side by side, one to a core; probes are ended by the same
rules as mlcd's own. What is left out is what the engine itself takes, a second or two. On a computer with a GPU two programs
run there as well. Every second training of a compiled program finds nothing in the compiler's cache, as on a new machine.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[2] / "src"
sys.path.insert(0, str(SOURCE))

from programs import CNN, COMPILED, KINDS  # noqa: E402  # beside this file

from mlcd.clouds.progress_files import ProgressReader  # noqa: E402  # not installed here
from mlcd.core.job import ProbeSettings  # noqa: E402
from mlcd.core.progress import Point  # noqa: E402
from mlcd.core.task import TaskState, TaskStatus  # noqa: E402
from mlcd.engine.probe_result import probe_phases, probe_result  # noqa: E402

SETTINGS = ProbeSettings(max_seconds=10)
TRAINING_SECONDS = (20, 40, 25)
LANES = 6  # programs side by side
LONGEST_PROBE = 200.0
LAST_BEGIN = 75.0  # seconds before the end, after which no job begins


def on_gpu(program: str, batch: int) -> str:
    """The same program on a GPU, with larger batches."""
    there = program.replace("torch.set_num_threads(1)", "torch.set_default_device('cuda')")
    larger = there.replace("randn(32,", f"randn({batch},").replace("(10, (32,))", f"(10, ({batch},))")
    return f"{larger}    if number % 20 == 0: torch.cuda.synchronize()\n"


PROGRAMS = {kind: program for kind, (program, _) in KINDS.items()}
ON_GPU = {"gpu": on_gpu(CNN, 512), "gpu_compiled": on_gpu(COMPILED, 32)}


class Recorder:
    """Trains until the time is over, and writes after each training."""

    def __init__(self, file: Path, seconds: float, busy: bool) -> None:
        self._file = file
        self._end_at = time.time() + seconds
        self._busy = busy
        self._lock = threading.Lock()
        self._runs: list[dict[str, Any]] = []

    def lane(self, kinds: list[str], turn: int) -> None:
        """One program after the other."""
        while time.time() < self._end_at - LAST_BEGIN:
            seconds = TRAINING_SECONDS[turn % len(TRAINING_SECONDS)]
            folder = Path(tempfile.mkdtemp())
            run = record(folder, kinds[turn % len(kinds)], seconds, new_machine=turn % 2 == 0)
            shutil.rmtree(folder, ignore_errors=True)
            self._keep(run | {"busy": self._busy})
            turn += 1

    def _keep(self, run: dict[str, Any]) -> None:
        with self._lock:
            self._runs.append(run)
            self._file.write_text(json.dumps(self._runs) + "\n")
            sys.stdout.write(f"{run['kind']} {run.get('seconds', run.get('error'))}\n")


def record(folder: Path, kind: str, seconds: float, new_machine: bool) -> dict[str, Any]:
    """A probe, and a training of about so many seconds."""
    cache = {"TORCHINDUCTOR_CACHE_DIR": str(folder / "cache")}
    points, phases = probe(folder / "probe", kind, cache)
    if len(points) < 3:
        return {
            "kind": kind,
            "error": (folder / "probe" / "log").read_text()[-300:] or "too slow to be measured",
        }
    middle, last = points[len(points) // 2], points[-1]
    samples = int(seconds * (last.samples - middle.samples) / (last.seconds - middle.seconds))
    began = time.time()
    if new_machine:
        cache = {"TORCHINDUCTOR_CACHE_DIR": str(folder / "other_cache")}
    code = start(folder / "training", kind, samples, cache).wait()
    took = time.time() - began
    if code:
        return {"kind": kind, "error": (folder / "training" / "log").read_text()[-300:]}
    return {
        "kind": kind,
        "fresh": new_machine,
        "load": os.getloadavg()[0],
        "samples": samples,
        "phases": phases,
        "first": points[0].seconds,
        "points": [(round(p.seconds - points[0].seconds, 4), p.steps, p.samples) for p in points],
        "seconds": took,
    }


def probe(folder: Path, kind: str, cache: dict[str, str]) -> tuple[list[Point], dict[str, float]]:
    """What a probe reported until mlcd would have ended it, and its phases."""
    began = time.time()
    process = start(folder, kind, 10**7 if kind == "numpy" else 10**9, cache)
    reader, status = ProgressReader(folder / "progress", began), begun(began)
    while process.poll() is None and time.time() < began + LONGEST_PROBE:
        time.sleep(0.5)
        now, status = time.time(), replace(status, progress=reader.read())
        if probe_result(status, now, SETTINGS) is not None:
            break
    process.kill()
    process.wait()
    over = replace(status, state=TaskState.STOPPED, ended_at=time.time())
    return [p for p in status.progress.points if p.steps > 0], asdict(probe_phases(over, SETTINGS))


def begun(at: float) -> TaskStatus:
    return TaskStatus(TaskState.RUNNING, started_at=at, setup_at=at, running_at=at)


def start(folder: Path, kind: str, samples: int, cache: dict[str, str]) -> subprocess.Popen[bytes]:
    """The program with mlcd's worker beside it."""
    (folder / "progress").mkdir(parents=True)
    (folder / "train.py").write_text((PROGRAMS | ON_GPU)[kind])
    told = {
        "PYTHONPATH": str(SOURCE),
        "MLCD_TASK_ID": "bare",
        "MLCD_PROGRESS_DIR": str(folder / "progress"),
        "MLCD_CHECKPOINT_DIR": str(folder / "checkpoints"),
        "MLCD_CHECKPOINT_KEEP": "2",
        "MLCD_WORK_SAMPLES": str(samples),
        "OMP_NUM_THREADS": "1",
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
    }
    with (folder / "log").open("w") as log:
        return subprocess.Popen(
            [sys.executable, "train.py"],
            cwd=folder,
            env={**os.environ, **told, **cache},
            stdout=subprocess.DEVNULL,
            stderr=log,
        )


def main(file: Path, seconds: float, busy_loops: int) -> None:
    """All lanes at once, beside so many processes that never rest."""
    recorder = Recorder(file, seconds, busy_loops > 0)
    lanes = [(list(PROGRAMS), turn) for turn in range(LANES)]
    lanes += [(list(ON_GPU), 0)] if shutil.which("nvidia-smi") else []
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(busy_loops)]
    try:
        threads = [threading.Thread(target=recorder.lane, args=lane) for lane in lanes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        for loop in loops:
            loop.kill()


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 0)
