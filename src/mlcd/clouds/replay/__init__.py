"""The cloud that answers from a recorded trace on a virtual clock: a search and a week of training in seconds."""

from __future__ import annotations

from mlcd.clouds.replay.cloud import ReplayCloud, open_cloud

__all__ = ["ReplayCloud", "open_cloud"]
