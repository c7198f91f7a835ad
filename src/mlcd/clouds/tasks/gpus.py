"""The GPUs of this computer, by NVIDIA's library where it is installed, else by its nvidia-smi. It travels, see node.py."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

FIND_SECONDS = 20.0  # a driver that sleeps takes a while to wake
USE_SECONDS = 3.0  # nobody waits longer to know how busy they are
_NOISE = re.compile(r"NVIDIA|GeForce|Tesla|Quadro|Graphics|\bSXM\d?\b|\bPCIe\b|\bHBM\d\w?\b|\bNVL\b|\b\d+\s?GB\b", re.I)


@dataclass(frozen=True)
class Gpu:
    """One GPU, as it was found."""

    id: str  # as CUDA_VISIBLE_DEVICES takes it
    model: str
    memory_gib: float


@dataclass(frozen=True)
class GpuUse:
    """How busy a GPU is at a moment."""

    id: str
    share: float  # 0 to 1
    memory_gib: float


def find_gpus() -> tuple[Gpu, ...]:
    """All GPUs; none where there is no NVIDIA driver."""
    rows = _query("index,name,memory.total", FIND_SECONDS)
    return tuple(Gpu(id=row[0], model=short_name(row[1]), memory_gib=_number(row[2]) / 1024) for row in rows)


def gpu_use(ids: Sequence[str]) -> tuple[GpuUse, ...]:
    """How busy these GPUs are now."""
    rows = _query("index,utilization.gpu,memory.used", USE_SECONDS) if ids else []
    return tuple(GpuUse(row[0], _number(row[1]) / 100, _number(row[2]) / 1024) for row in rows if row[0] in ids)


def short_name(model: str) -> str:
    """The name that people say: 'NVIDIA A100-SXM4-80GB' → 'A100-80GB', 'Tesla T4' → 'T4'."""
    bare = re.sub(r"[\s\-]+", "", _NOISE.sub(" ", model.replace("-", " ")))
    return "A100-80GB" if bare == "A100" and "80GB" in model else bare or "GPU"


def _query(fields: str, seconds: float) -> list[list[str]]:
    """The asked fields of each GPU, in the words of nvidia-smi."""
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError:
        return _ask_smi(fields, seconds)
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:  # the library without a driver
        return []
    try:
        return [_ask_library(nvml, index, fields) for index in range(nvml.nvmlDeviceGetCount())]
    finally:
        nvml.nvmlShutdown()


def _ask_library(nvml: Any, index: int, fields: str) -> list[str]:
    device = nvml.nvmlDeviceGetHandleByIndex(index)
    mib = 2**20
    ask = {
        "index": lambda: str(index),
        "name": lambda: _text(nvml.nvmlDeviceGetName(device)),
        "memory.total": lambda: str(nvml.nvmlDeviceGetMemoryInfo(device).total / mib),
        "memory.used": lambda: str(nvml.nvmlDeviceGetMemoryInfo(device).used / mib),
        "utilization.gpu": lambda: str(nvml.nvmlDeviceGetUtilizationRates(device).gpu),
    }
    words = []
    for field in fields.split(","):
        try:
            words.append(ask[field]())
        except nvml.NVMLError:  # this card does not say
            words.append("[N/A]")
    return words


def _ask_smi(fields: str, seconds: float) -> list[list[str]]:
    if shutil.which("nvidia-smi") is None:
        return []
    command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=True)
    except (OSError, subprocess.SubprocessError):  # the program without a driver
        return []
    return [[word.strip() for word in line.split(",")] for line in answer.stdout.splitlines() if line.strip()]


def _number(text: str) -> float:
    return float(text) if re.fullmatch(r"[\d.]+", text) else 0.0  # "[N/A]" on some cards


def _text(name: str | bytes) -> str:
    return name.decode() if isinstance(name, bytes) else name
