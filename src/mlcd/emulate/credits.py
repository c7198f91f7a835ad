"""CPU time that a host may take beyond its share: to boot, and to load a framework.

`import torch` costs two to three CPU seconds; at a tenth of a core that would be half a minute which no real
machine takes. So a host begins with credit and its quota is lifted until that is used up. An idle host earns it
back, as EC2's T types do; one that works steadily never does, so what is measured is the host's share.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

LAUNCH_CREDIT_S = 4.0  # CPU seconds
EARNED_PER_IDLE_SECOND = 0.5
_IDLE_SHARE = 0.05  # of its share: less than this is idling
_ENOUGH_S = LAUNCH_CREDIT_S / 2  # a pause between two steps of a training lifts nothing


@dataclass(frozen=True)
class CpuCredit:
    """How much a host may still take beyond its share."""

    left_s: float = LAUNCH_CREDIT_S
    lifted: bool = True  # whether the host runs without quota
    used_s: float = 0.0  # CPU seconds in all, when last seen
    seen_at: float = 0.0

    def after(self, used_s: float, now: float, cores: float) -> CpuCredit:
        """The credit once the host has used so many CPU seconds in all."""
        elapsed, used = now - self.seen_at, used_s - self.used_s
        if elapsed <= 0:
            return self
        if used < _IDLE_SHARE * cores * elapsed:
            left = min(LAUNCH_CREDIT_S, self.left_s + EARNED_PER_IDLE_SECOND * elapsed)
        else:
            left = max(0.0, self.left_s - used) if self.lifted else self.left_s
        lifted = left > 0 if self.lifted else left >= _ENOUGH_S
        return replace(self, left_s=left, lifted=lifted, used_s=used_s, seen_at=now)
