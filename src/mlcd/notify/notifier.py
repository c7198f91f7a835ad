"""Notifies each target of each event of a job at most once, also when another controller takes over."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from mlcd.core.live import Live
from mlcd.core.notices import NotificationEvent
from mlcd.core.records import JobRecord
from mlcd.errors import UserError
from mlcd.notify.messages import Message
from mlcd.notify.occurrences import Occurrence, occurrences
from mlcd.notify.send import NotSentError, send
from mlcd.notify.targets import Target, targets_of
from mlcd.settings import NotifySettings, Settings
from mlcd.store import Store

LOOKS_AT_RISK = 3  # in a row: a forecast that is late for a moment is no reason to notify anyone


def open_notifier(store: Store, settings: Settings, record: JobRecord, secrets: Mapping[str, str]) -> Notifier | None:
    """The notifier of a job; None: there is nobody to notify. A target that cannot be used becomes a warning."""
    targets = []
    for found in targets_of(settings.notify, record, secrets):
        if isinstance(found, Target):
            targets.append(found)
        else:
            store.add_event_once(record.id, time.time(), "warning", found.message, {"notify": found.message})
    hidden = str(settings.home) if record.owner else ""  # where a server keeps things is not for its users
    return Notifier(store, settings.notify, record.id, targets, hidden=hidden) if targets else None


class Notifier:
    """An observer, called from a thread of its own, so it may take its time."""

    def __init__(
        self,
        store: Store,
        settings: NotifySettings,
        job_id: str,
        targets: list[Target],
        send: Callable[[NotifySettings, Target, Message], None] = send,
        hidden: str = "",
    ) -> None:
        self._store = store
        self._settings = settings
        self._job_id = job_id
        self._targets = targets
        self._send = send
        self._hidden = hidden  # a path that messages must not show
        self._sent: set[tuple[str, str]] = set()  # saves a query of the store
        self._looks_at_risk = 0

    def look(self) -> None:
        """Notify of what is new."""
        record, live = self._store.job(self._job_id), self._store.live(self._job_id)
        if self._hidden:
            record = replace(record, error=record.error.replace(self._hidden, "$MLCD_HOME"))
        spent_usd = self._store.spent(self._job_id)
        for occurrence in self._steady(occurrences(record, live, spent_usd)):
            for target in self._targets:
                if occurrence.occasion in target.occasions:
                    self._notify(target, occurrence, record, live, spent_usd)

    def close(self) -> None:
        """Nothing is held open."""

    def _steady(self, found: list[Occurrence]) -> list[Occurrence]:
        at_risk = any(each.occasion is NotificationEvent.DEADLINE for each in found)
        self._looks_at_risk = self._looks_at_risk + 1 if at_risk else 0
        sure = self._looks_at_risk >= LOOKS_AT_RISK
        return [each for each in found if sure or each.occasion is not NotificationEvent.DEADLINE]

    def _notify(
        self, target: Target, occurrence: Occurrence, record: JobRecord, live: Live | None, spent_usd: float
    ) -> None:
        """Record the notification, then send it: a kill in between loses a message and never sends it twice."""
        data = {"event": occurrence.occasion.value, "key": occurrence.key, "to": target.name}
        mark = (target.name, f"{occurrence.occasion}/{occurrence.key}")
        if mark in self._sent:
            return
        self._sent.add(mark)
        words = f"Notifying {target.name}: {occurrence.occasion}"
        if self._store.add_event_once(self._job_id, time.time(), "notice", words, data) is None:
            return
        message = self._message(target, occurrence, record, live, spent_usd)
        try:
            self._send(self._settings, target, message)
        except (NotSentError, UserError) as error:
            words = f"Could not notify {target.name} of '{occurrence.occasion}': {error}"
            self._store.add_event_once(self._job_id, time.time(), "warning", words, data)

    def _message(
        self, target: Target, occurrence: Occurrence, record: JobRecord, live: Live | None, spent_usd: float
    ) -> Message:
        what = f"{record.id}/{occurrence.occasion}/{occurrence.key}/{target.name}"
        delivery = hashlib.sha256(what.encode()).hexdigest()[:24]
        base = self._settings.link.rstrip("/")
        link = f"{base}/jobs/{record.id}" if base else ""
        return Message(occurrence, record, live, spent_usd, time.time(), delivery, link)
