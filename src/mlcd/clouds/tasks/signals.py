"""Which signals a runner takes in turn, by sigtimedwait. On its own, for it is needed before anything heavy is loaded."""

from __future__ import annotations

import signal

SIGNALS = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD}
