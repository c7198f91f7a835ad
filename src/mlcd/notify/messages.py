"""A message in the format of each channel. It contains no secret and no log."""

from __future__ import annotations

import json
from dataclasses import dataclass
from email.message import EmailMessage
from email.utils import formatdate
from typing import Any

from mlcd.core.live import Live
from mlcd.core.records import JobRecord
from mlcd.core.units import show_duration, show_usd
from mlcd.notify.occurrences import Occurrence


@dataclass(frozen=True)
class Message:
    """One notification, with the state of the job."""

    occurrence: Occurrence
    record: JobRecord
    live: Live | None
    spent_usd: float
    at: float  # seconds since the epoch
    delivery: str  # the same for the same message to the same target
    link: str = ""

    @property
    def text(self) -> str:
        """In one line."""
        return f"mlcd: {self.occurrence.message}"


def as_json(message: Message) -> bytes:
    """The body for a webhook."""
    record = message.record
    live = message.live if record.state.active else None
    data: dict[str, Any] = {
        "event": message.occurrence.occasion.value,
        "delivery": message.delivery,
        "at": message.at,
        "message": message.occurrence.message,
        "job": {
            "id": record.id,
            "name": record.job.name,
            "state": record.state.value,
            "owner": record.owner,
            "cloud": record.cloud,
            "exit_code": record.exit_code,
        },
        "spent_usd": message.spent_usd,
        "budget_usd": record.budget_usd,
        "deadline_at": record.deadline_at,
        "forecast_usd": live.total_usd if live else None,
        "forecast_seconds": live.total_seconds if live else None,
        "link": message.link or None,
    }
    return json.dumps(data, ensure_ascii=False).encode("utf-8", "replace")


def as_slack(message: Message) -> bytes:
    """The body for Slack's incoming webhooks and compatible ones."""
    lines = [_escaped(message.text), f"`{_escaped(message.record.id)}` is {message.record.state}"]
    lines += [message.link] if message.link else []
    return json.dumps({"text": "\n".join(lines)}).encode()


def as_email(message: Message, sender: str, to: str) -> EmailMessage:
    """A plain-text mail."""
    mail = EmailMessage()
    mail["From"], mail["To"] = sender, to
    mail["Subject"] = " ".join(message.text.split())[:200]
    mail["Date"] = formatdate(message.at)
    mail["Message-ID"] = f"<{message.delivery}@mlcd>"
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content("\n".join(_lines(message)))
    return mail


def _lines(message: Message) -> list[str]:
    record = message.record
    budget = "" if record.budget_usd is None else f" of {show_usd(record.budget_usd)}"
    lines = [
        message.occurrence.message,
        "",
        f"Job      {record.id}",
        f"State    {record.state}",
        f"Spent    {show_usd(message.spent_usd)}{budget}",
    ]
    if record.state.active and message.live is not None and message.live.left_seconds is not None:
        lines.append(f"Left     {show_duration(message.live.left_seconds)}")
    return [*lines, *(["", message.link] if message.link else []), ""]


def _escaped(text: str) -> str:
    """No markup and no mention of everyone comes out of a job's name."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("`", "'")
