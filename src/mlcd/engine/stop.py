"""Stopping: the user's wish, and a task that ends until nothing of it runs."""

from __future__ import annotations

from mlcd.core.task import Handle, TaskStatus
from mlcd.engine.context import JobContext

# Beyond the grace. Machines elsewhere are billed until what they made is home and they are given back, and only then is the
# bill whole and the model complete; a cloud that takes longer than this is not waited for.
STOP_SECONDS = 900.0


class StopAskedError(Exception):
    """The user wants the job to stop; everything it started has ended."""


def end_task(context: JobContext, handle: Handle, grace_seconds: float) -> TaskStatus:
    """Stop it and give its last status."""
    context.cloud.stop(handle)
    give_up_at = context.now() + grace_seconds + STOP_SECONDS
    status = context.status(handle)
    while not status.state.ended and context.now() < give_up_at:
        context.cloud.clock.sleep(min(context.cloud.poll_seconds, 1.0))
        status = context.status(handle)
    return status
