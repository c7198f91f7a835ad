"""The key `on_event` of a job file: who is notified of what happens to the job.

on_event: https://example.org/hook            # a webhook, for every event
on_event: me@example.org                      # an e-mail address
on_event:
  - slack: $SLACK_URL                         # the value of the job's secret of that name
    events: [finished, failed]
  - webhook: https://example.org/hook
    sign_with: HOOK_KEY                       # likewise, the name of a secret
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

import mlcd.core.jobfile.values as read
from mlcd.core.notices import EVERY_OCCASION, Channel, NotificationEvent, Recipient
from mlcd.errors import did_you_mean

MOST = 20  # recipients of a job
_EMAIL = re.compile(r"[^@\s,;<>\"]{1,64}@[^@\s,;<>\"]{1,255}")
_SECRET = re.compile(r"\$[A-Za-z_][A-Za-z0-9_]*")
_BESIDE = frozenset({"events", "sign_with"})


def recipients(value: Any) -> tuple[Recipient, ...]:
    """One recipient or a list of them."""
    values = value if isinstance(value, list | tuple) else [value]
    if len(values) > MOST:
        raise ValueError(f"there are more than {MOST} recipients")
    return tuple(dict.fromkeys(_recipient(each) for each in values))


def occasions(value: Any) -> tuple[NotificationEvent, ...]:
    """One event or a list of them, of those that people can be notified of."""
    words = [word.strip().lower() for word in read.texts(value)]
    for word in words:
        if word not in set(NotificationEvent):
            raise ValueError(f"{read.shown(word)} is no event. {did_you_mean(word, list(NotificationEvent))}")
    return tuple(NotificationEvent(word) for word in words)


def checked_address(channel: Channel, address: str) -> str:
    """The address if it is one for that channel."""
    if channel is Channel.EMAIL:
        if not _EMAIL.fullmatch(address):
            raise ValueError(f"{read.shown(address)} is not an e-mail address")
        return address
    if _SECRET.fullmatch(address):
        return address
    return _checked_url(address)


def _checked_url(address: str) -> str:
    try:
        parts = urlsplit(address)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good or any(letter.isspace() or not letter.isprintable() for letter in address):
        raise ValueError("it is not an address such as https://example.org/hook")
    if parts.username or parts.password:
        raise ValueError("a password does not belong in it: make the whole address a secret, and write $NAME")
    return address


def _recipient(value: Any) -> Recipient:
    if not isinstance(value, dict):
        address = read.filled_text(value).strip()
        channel = Channel.EMAIL if _EMAIL.fullmatch(address) and "://" not in address else Channel.WEBHOOK
        return Recipient(channel, checked_address(channel, address))
    channel = _channel(value)
    return Recipient(
        channel=channel,
        address=checked_address(channel, read.filled_text(value[channel.value]).strip()),
        occasions=occasions(value["events"]) if value.get("events") is not None else EVERY_OCCASION,
        sign_with=_sign_with(channel, value.get("sign_with")),
    )


def _channel(value: dict[Any, Any]) -> Channel:
    known = {*Channel, *_BESIDE}
    for key in value:
        if key not in known:
            raise ValueError(f"unknown key {read.shown(key)}. {did_you_mean(str(key), known)}")
    named = [channel for channel in Channel if value.get(channel.value) is not None]
    if len(named) != 1:
        raise ValueError("say one of 'webhook', 'slack' and 'email', such as {webhook: https://example.org}")
    return named[0]


def _sign_with(channel: Channel, value: Any) -> str:
    if value is None:
        return ""
    if channel is not Channel.WEBHOOK:
        raise ValueError("only what is sent to a webhook is signed: leave out 'sign_with'")
    return read.env_name(read.filled_text(value).strip().removeprefix("$"))
