"""What an invocation has taken, and what it costs: to the millisecond, and by the request."""

from __future__ import annotations

import json
import math
import threading
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Report:
    """One invocation, after it has ended."""

    request_id: str
    function: str
    began_at: float  # seconds since the epoch
    seconds: float  # in the handler
    init_seconds: float | None  # of a cold start; None: the environment was warm
    memory_mb: int
    peak_mb: int
    error: str = ""

    @property
    def billed_ms(self) -> int:
        """Handler and initialisation, each begun millisecond."""
        return max(1, math.ceil((self.seconds + (self.init_seconds or 0.0)) * 1000 - 1e-6))

    @property
    def gb_seconds(self) -> float:
        """Memory size × time billed; a Lambda GB has 1,024 MB."""
        return self.memory_mb / 1024 * self.billed_ms / 1000

    def line(self) -> str:
        """As Lambda writes it at the end of an invocation's log."""
        init = f"\tInit Duration: {self.init_seconds * 1000:.2f} ms" if self.init_seconds is not None else ""
        return (
            f"REPORT RequestId: {self.request_id}\tDuration: {self.seconds * 1000:.2f} ms"
            f"\tBilled Duration: {self.billed_ms} ms\tMemory Size: {self.memory_mb} MB"
            f"\tMax Memory Used: {self.peak_mb} MB{init}\n"
        )


class Ledger:
    """Every invocation that has ended, a line each."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()

    def add(self, report: Report) -> None:
        """Write it down."""
        entry = {**asdict(report), "billed_ms": report.billed_ms, "gb_seconds": report.gb_seconds}
        with self._lock, self._file.open("a") as file:
            file.write(json.dumps(entry) + "\n")
