"""The lease of one machine: the moment at which it ends itself, moved on for as long as a task wants the machine."""

from __future__ import annotations

import re
import threading
import time
import traceback

from mlcd.clouds.remote.base import Reach
from mlcd.errors import CloudError

LOOK_SECONDS = 0.5
LEAVE_SECONDS = 30.0  # to wait for a renewal under way
_SECONDS = re.compile(r"^\d{9,11}$", re.MULTILINE)
AGREE_SECONDS = 10.0  # two clocks that differ by less than that agree: asking takes time, too
CLOCK_SECONDS = 15.0  # for a machine to tell its time


class Lease:
    """Renews itself in a thread and over a connection of its own, so that no upload and no download holds it up."""

    def __init__(self, reach: Reach, control: str, seconds: float) -> None:
        self.file = f"{control or reach.base}/lease"
        self.seconds = seconds
        self.until = 0.0  # as we last wrote it to the machine; 0: not yet
        self._reach = reach
        self._ahead: float | None = None  # the machine's clock of ours; None: not asked yet
        self._writing = threading.Lock()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def renew(self) -> None:
        """Let the machine live on for the whole time of the lease."""
        self._write(time.time() + self.seconds)

    @property
    def clock_ahead(self) -> float:
        """By how many seconds the machine's clock is ahead of ours; 0: by less than can be told, or it was not asked."""
        return self._ahead if self._ahead is not None and abs(self._ahead) > AGREE_SECONDS else 0.0

    def hold(self) -> None:
        """Renew it again and again from now on; a second time is quiet."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._hold, name="lease", daemon=True)
            self._thread.start()

    def leave(self, until: float) -> None:
        """Let the machine end then, unless somebody else renews its lease."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join(LEAVE_SECONDS)  # it must not renew the lease after us
        self._write(until)

    def close(self) -> None:
        """Renew it no more."""
        self._closed.set()
        self._reach.close()

    def _hold(self) -> None:
        """Renew it once a quarter has passed: there is time to try again where the machine does not answer."""
        while not self._closed.wait(LOOK_SECONDS):
            if self.until - time.time() < 0.75 * self.seconds:
                self._try_to_renew()

    def _try_to_renew(self) -> None:
        try:
            self.renew()
        except CloudError:  # it does not answer now
            return
        except Exception:  # whatever it is, it must be tried again: without its lease the machine ends
            traceback.print_exc()

    def _write(self, until: float) -> None:
        with self._writing:
            self._ahead = clock_ahead(self._reach)  # each time: either clock may be set right meanwhile
            self._reach.write(self.file, f"{until + self._ahead:.0f}\n".encode())
            self.until = until


def clock_ahead(reach: Reach) -> float:
    """By how many seconds a machine's clock is ahead of ours: a machine keeps its lease by its own."""
    asked_at = time.time()
    ran = reach.run("date +%s", seconds=CLOCK_SECONDS)
    here = (asked_at + time.time()) / 2
    told = _SECONDS.search(ran.output)  # a login may say other things, too
    if told is None:
        raise CloudError(f"A machine does not tell its time: {ran.output.strip()[-200:]}")
    return float(told[0]) + 0.5 - here
