"""End a task and wait until nothing of it runs."""

from __future__ import annotations

from mlcd.core.task import Handle, TaskStatus
from mlcd.engine.context import Desk

# Beyond the grace. Machines elsewhere are billed until what they made is home and they are given back, and only then is the
# bill whole and the model complete; a cloud that takes longer than this is not waited for.
STOP_SECONDS = 900.0


def end_task(desk: Desk, handle: Handle, grace_seconds: float) -> TaskStatus:
    """Stop it and give its last status."""
    desk.cloud.stop(handle)
    give_up_at = desk.now() + grace_seconds + STOP_SECONDS
    status = desk.status(handle)
    while not status.state.ended and desk.now() < give_up_at:
        desk.cloud.clock.sleep(min(desk.cloud.poll_seconds, 1.0))
        status = desk.status(handle)
    return status
