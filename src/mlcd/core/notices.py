"""Who is notified of what happens to a job, and how."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class NotificationEvent(StrEnum):
    """Events that people are notified of."""

    FINISHED = "finished"
    FAILED = "failed"
    PAUSED = "paused"  # stopped with a checkpoint before a limit was passed
    BUDGET = "budget"  # 80 % of it is spent
    DEADLINE = "deadline"  # at risk: the forecast passes it
    HANG = "hang"  # no step for half the time after which the training is started again
    NAN = "nan"  # a loss is nan or infinite


class Channel(StrEnum):
    """How they are notified."""

    WEBHOOK = "webhook"  # JSON by POST
    SLACK = "slack"  # what Slack, Mattermost and others take at an incoming webhook
    EMAIL = "email"


EVERY_OCCASION = tuple(NotificationEvent)


@dataclass(frozen=True)
class Recipient:
    """Someone to notify. A URL that is a secret is written $NAME: the value is the job's secret of that name."""

    channel: Channel
    address: str
    occasions: tuple[NotificationEvent, ...] = EVERY_OCCASION
    sign_with: str = ""  # the job's secret that signs what is sent to a webhook

    @property
    def secret_names(self) -> tuple[str, ...]:
        """The job's secrets that are needed to notify them."""
        named = (self.address.removeprefix("$"),) if self.address.startswith("$") else ()
        return (*named, *((self.sign_with,) if self.sign_with else ()))
