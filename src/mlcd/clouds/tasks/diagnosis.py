"""Why a program ended, on whatever cloud: from its exit code and the end of its log."""

from __future__ import annotations

import re
import signal
from pathlib import Path

from mlcd.clouds.tasks.outcome import Outcome
from mlcd.clouds.tasks.programs import KILLED, SIGNALLED, shown
from mlcd.core.task import EndCause
from mlcd.worker.trees import read_part

OUT_OF_MEMORY = "out of memory"
NO_ROOM = "no space left on the disk"
TAIL_BYTES = 16384
TAIL_LINES = 30
_NO_MEMORY = re.compile(
    r"\bMemoryError\b|[Cc]an(no|')t allocate memory|CUDA out of memory|OutOfMemoryError"
    r"|CUDA_ERROR_OUT_OF_MEMORY|std::bad_alloc|RESOURCE_EXHAUSTED"
)
# As PyTorch, Lightning, Transformers, Accelerate, bitsandbytes, JAX and CuPy say it.
_NO_GPU = re.compile(
    r"No (CUDA|HIP) GPUs are available|Found no NVIDIA driver|[Nn]o CUDA-capable device|cudaErrorNoDevice"
    r"|not compiled with CUDA enabled|torch\.cuda\.is_available\(\) is False|No supported gpu backend found"
    r"|Accelerator`? can not run on your system|setup doesn't support bf16/gpu|only supported with GPUs, no GPUs found"
    r"|only be used on CUDA devices|CUDA is required but not available|Unknown backend:? '?(gpu|cuda|rocm)"
)
_NO_ROOM = re.compile(r"No space left on device|Disk quota exceeded")


def diagnose(code: int, node: int, log: Path, what: str, kernel_killed: bool | None) -> Outcome:
    """How the program's failure is to be told. `kernel_killed`: for want of memory; None: not known."""
    tail = log_tail(log)
    code = shown(code) or 0
    if code == KILLED and kernel_killed is False:
        return Outcome(EndCause.NODE_LOST, f"node {node} was killed from outside", code, node)
    if code == KILLED or _NO_MEMORY.search(tail):
        return Outcome(EndCause.OUT_OF_MEMORY, OUT_OF_MEMORY, code, node)
    if _NO_ROOM.search(tail):
        return Outcome(EndCause.DISK_FULL, NO_ROOM, code, node)
    if _NO_GPU.search(tail):
        return Outcome(EndCause.NO_GPU, f"{what} needs a GPU and found none on node {node}", code, node)
    return Outcome(EndCause.CRASHED, f"{what} ended with {_in_words(code)} on node {node}", code, node)


def log_tail(log: Path, lines: int = TAIL_LINES) -> str:
    """The last lines of a log."""
    try:
        size = log.stat().st_size
    except OSError:
        return ""
    text = read_part(log, max(0, size - TAIL_BYTES), TAIL_BYTES).decode(errors="replace")
    return "\n".join(text.splitlines()[-lines:])


def _in_words(code: int) -> str:
    """'exit code 3', or the name of the signal in codes above 128."""
    try:
        return f"{signal.Signals(code - SIGNALLED).name} (exit code {code})"
    except ValueError:
        return f"exit code {code}"
