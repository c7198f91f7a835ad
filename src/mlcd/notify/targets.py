"""Whom to notify of a job: targets of the settings and of the job itself, with their secrets filled in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from mlcd.core.jobfile.events import checked_address, occasions
from mlcd.core.notices import EVERY_OCCASION, Channel, NotificationEvent, Recipient
from mlcd.core.records import JobRecord
from mlcd.errors import UserError
from mlcd.settings import NotifySettings


@dataclass(frozen=True)
class Target:
    """One address to notify."""

    channel: Channel
    address: str = field(repr=False)  # of a webhook it may be a secret
    name: str  # shown in events and logs
    occasions: tuple[NotificationEvent, ...]
    signing_key: str = field(default="", repr=False)
    anywhere: bool = True  # private addresses too


def targets_of(settings: NotifySettings, record: JobRecord, secrets: Mapping[str, str]) -> Iterator[Target | UserError]:
    """All targets of this job; a UserError in place of one that cannot be used.

    A job of an account may only notify public addresses, unless the settings allow more.
    """
    yield from _of_settings(settings)
    anywhere = not record.owner or settings.allow_private
    for number, recipient in enumerate(record.job.on_event, start=1):
        yield _of_job(recipient, number, secrets, anywhere)


def _of_settings(settings: NotifySettings) -> Iterator[Target | UserError]:
    try:
        wanted = occasions(settings.events.split(",")) if settings.events.strip() else EVERY_OCCASION
        for channel in Channel:
            if address := getattr(settings, channel.value):
                key = settings.webhook_key if channel is Channel.WEBHOOK else ""
                yield Target(channel, checked_address(channel, address), _name(channel, address), wanted, key)
    except ValueError as error:
        yield UserError(f"The settings in [notify] are not valid: {error}.")


def _of_job(recipient: Recipient, number: int, secrets: Mapping[str, str], anywhere: bool) -> Target | UserError:
    missing = [name for name in recipient.secret_names if name not in secrets]
    if missing:
        return UserError(f"Recipient {number} of on_event needs the secret '{missing[0]}', which is missing.")
    hidden = recipient.address.startswith("$")
    address = secrets[recipient.address.removeprefix("$")] if hidden else recipient.address
    try:
        checked = checked_address(recipient.channel, address.strip()) if address[:1] != "$" else ""
    except ValueError:
        checked = ""
    if not checked:
        return UserError(f"The secret of recipient {number} of on_event is not an address.")
    name = f"{_name(recipient.channel, checked)} (on_event {number})"
    key = secrets[recipient.sign_with] if recipient.sign_with else ""
    return Target(recipient.channel, checked, name, recipient.occasions, key, anywhere)


def _name(channel: Channel, address: str) -> str:
    """The channel with the host: the rest of a webhook's address may be what keeps strangers out."""
    shown = address if channel is Channel.EMAIL else urlsplit(address).hostname
    return f"{channel.value} {shown}"
