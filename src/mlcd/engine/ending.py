"""End a task and wait until nothing of it runs."""

from __future__ import annotations

from mlcd.clouds.base import Cloud
from mlcd.core.task import Handle, TaskStatus

# Beyond the grace. Machines elsewhere are billed until what they made is home and they are given back, and only then is the
# bill whole and the model complete; a cloud that takes longer than this is not waited for.
STOP_SECONDS = 900.0


def end_task(cloud: Cloud, handle: Handle, grace_seconds: float) -> TaskStatus:
    """Stop it and give its last status."""
    cloud.stop(handle)
    give_up_at = cloud.clock.now() + grace_seconds + STOP_SECONDS
    status = cloud.status(handle)
    while not status.state.ended and cloud.clock.now() < give_up_at:
        cloud.clock.sleep(min(cloud.poll_seconds, 1.0))
        status = cloud.status(handle)
    return status
