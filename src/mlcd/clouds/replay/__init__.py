"""The cloud that answers from a recorded trace on a virtual clock: a search and a week of training in seconds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mlcd.clouds.base import CloudPlugin
from mlcd.clouds.replay.options import NAMES

if TYPE_CHECKING:
    from mlcd.clouds.base import Cloud
    from mlcd.settings import Settings


def _open(settings: Settings, options: Mapping[str, str]) -> Cloud:
    from mlcd.catalog.traces import find_workload
    from mlcd.clouds.replay.cloud import ReplayCloud
    from mlcd.clouds.replay.options import read_options

    read = read_options(settings, options)
    return ReplayCloud(find_workload(read.trace, read.workload), read)


open_cloud = CloudPlugin("replay", _open, options=NAMES, page="reference/trace-format.md")
