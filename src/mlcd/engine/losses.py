"""How often a job's training is expected to be thrown back, with what it has seen, and how often it saves for that."""

from __future__ import annotations

from collections.abc import Iterable

from mlcd.core.live import Live
from mlcd.core.machines import Deployment
from mlcd.core.records import JobRecord
from mlcd.core.run import Attempt, AttemptEnd, JobState
from mlcd.core.task import EndCause
from mlcd.forecast.checkpoint_interval import Losses, expected_losses, interval_in_words

_LOSSES = (EndCause.NODE_LOST, EndCause.SPOT_NOTICE, EndCause.RUNNER_LOST)


def losses_of(deployment: Deployment, attempts: Iterable[Attempt]) -> Losses:
    """What is to be expected there, by the attempts on machines of its kind."""
    alike = [each for each in attempts if each.deployment.offer.name == deployment.offer.name]
    lost = sum(each.end is AttemptEnd.LOST and each.cause in _LOSSES for each in alike)
    return expected_losses(deployment, lost, sum(each.seconds for each in alike))


def saves_in_words(record: JobRecord, attempts: Iterable[Attempt], live: Live | None) -> str:
    """How often a planned or running training saves, and why; empty where nobody has asked and little is ever lost."""
    if record.plan is None or record.state is JobState.SUCCEEDED:
        return ""
    deployment, interval = record.deployment, record.job.checkpoint.interval_seconds
    saving = live.saving if live is not None else None
    offer = deployment.offer
    matters = interval is not None or saving is not None or offer.losses_per_hour > 0 or offer.lifetime_seconds > 0
    return interval_in_words(losses_of(deployment, attempts), interval, saving) if matters else ""
