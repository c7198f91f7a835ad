"""Notifies people of what happens to a job: by webhook, Slack-compatible webhook and e-mail."""

from __future__ import annotations

from mlcd.notify.notifier import Notifier, open_notifier

__all__ = ["Notifier", "open_notifier"]
