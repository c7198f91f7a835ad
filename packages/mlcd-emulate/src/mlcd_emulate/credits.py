"""CPU time that a host may take beyond its share: to boot, and to load a framework.

`import torch` costs two to four CPU seconds; at a tenth of a core that would be half a minute which no real
machine takes. So a host has credit when it boots and whenever a session begins there (a login, an agent, a program),
and its quota is lifted until that is used up, or until it has loaded: what loads takes more and more memory, what
computes does not. A host that idles earns credit too, as EC2's T types do; one that works never does, however often
it waits for its peers, so what is measured is the host's share.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

CREDIT_S = 6.0  # CPU seconds
LOADED_AFTER_S = 0.15  # CPU seconds without more memory
_MORE_MIB = 2.0  # less than that is a program's own coming and going
EARNED_PER_IDLE_SECOND = 0.5
_IDLE_SHARE = 0.05  # of its share: less than this is idling
_ENOUGH_S = CREDIT_S / 3  # a pause between two steps of a training lifts nothing


@dataclass(frozen=True)
class CpuCredit:
    """How much a host may still take beyond its share."""

    left_s: float = CREDIT_S
    lifted: bool = True  # whether the host runs without quota
    used_s: float = 0.0  # CPU seconds in all, when last seen
    seen_at: float = 0.0
    most_mib: float = 0.0  # the most memory that it has taken since something was started
    grew_at_s: float = 0.0  # CPU seconds in all, when it last took more

    def after(self, used_s: float, now: float, cores: float, memory_mib: float) -> CpuCredit:
        """The credit once the host has used so many CPU seconds in all and takes so much memory."""
        elapsed, used = now - self.seen_at, used_s - self.used_s
        if elapsed <= 0:
            return self
        seen = replace(self._grown(used_s, memory_mib), used_s=used_s, seen_at=now)
        if used < _IDLE_SHARE * cores * elapsed:
            return seen._earned(EARNED_PER_IDLE_SECOND * elapsed)
        return seen._spent(used)

    def anew(self) -> CpuCredit:
        """All of it again: something has been started."""
        return replace(self, left_s=CREDIT_S, lifted=True, most_mib=0.0, grew_at_s=self.used_s)

    def _grown(self, used_s: float, memory_mib: float) -> CpuCredit:
        if memory_mib < self.most_mib + _MORE_MIB:
            return self
        return replace(self, most_mib=memory_mib, grew_at_s=used_s)

    def _earned(self, seconds: float) -> CpuCredit:
        left = min(CREDIT_S, self.left_s + seconds)
        if self.lifted or left < _ENOUGH_S:
            return replace(self, left_s=left)
        return replace(self, left_s=left, lifted=True, most_mib=0.0, grew_at_s=self.used_s)

    def _spent(self, seconds: float) -> CpuCredit:
        """A pause that ends before it has earned enough has earned nothing; nor is credit left to what has loaded."""
        loads = self.lifted and self.used_s - self.grew_at_s < LOADED_AFTER_S
        left = max(0.0, self.left_s - seconds) if loads else 0.0
        return replace(self, left_s=left, lifted=left > 0)
