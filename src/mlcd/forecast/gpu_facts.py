"""What data sheets say of GPUs: how fast one kind should be beside another, for a job that never ran on it.

Peaks of dense multiplication in the precision that PyTorch takes for single-precision tensors by itself (TF32 where
the GPU has it), and memory bandwidth; of the SXM form where there are several, of one die where a board has two.
The makers' published figures, as of 2026-11-19; those of T4 and A100 were looked up again on that day, the others not:
    K80, M60, P4, P100, V100, T4, RTX 2080 Ti, Quadro RTX 6000     NVIDIA's data sheets of each; Turing white paper
    A10G, A100, L4, L40S, H100, H200, B200                         NVIDIA's data sheets; AWS's pages on G5 and P6
    MI300X                                                         AMD's data sheet
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log


@dataclass(frozen=True)
class GpuFacts:
    """Two peaks of one GPU."""

    tflops: float
    gigabytes_per_second: float


_FACTS = {
    "k80": GpuFacts(4.4, 240),
    "m60": GpuFacts(4.8, 160),
    "p4": GpuFacts(5.5, 192),
    "p100": GpuFacts(10.6, 732),
    "v100": GpuFacts(15.7, 900),
    "t4": GpuFacts(8.1, 320),
    "rtx2080ti": GpuFacts(13.4, 616),
    "rtx6000": GpuFacts(16.3, 672),
    "a10g": GpuFacts(35, 600),
    "a100": GpuFacts(156, 1555),
    "l4": GpuFacts(60, 300),
    "l40s": GpuFacts(183, 864),
    "h100": GpuFacts(495, 3350),
    "h200": GpuFacts(495, 4800),
    "b200": GpuFacts(1100, 8000),
    "mi300x": GpuFacts(654, 5300),
}
_MAKERS = ("nvidia", "amd", "tesla", "quadro", "geforce", "instinct")


def log_speed(family: str) -> float | None:
    """log of the geometric mean of both peaks: jobs lie between the two; None for a family that is not known."""
    facts = _FACTS.get(_plain(family))
    return None if facts is None else 0.5 * log(facts.tflops * facts.gigabytes_per_second)


def _plain(family: str) -> str:
    """The bare name, as of “NVIDIA A100-SXM4-80GB”."""
    words = family.lower().replace("-", " ").replace("_", " ").split()
    kept = [word for word in words if word not in _MAKERS]
    return next((name for name in ("".join(kept), *kept) if name in _FACTS), "")
