"""A Ray cluster keeps the promises of a cloud."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mlcd.clouds.base import Cloud
from mlcd.settings import RaySettings, Settings
from mlcd.testing import CloudContract


@pytest.mark.slow
class TestRayCloud(CloudContract):
    """A real cluster of small nodes on this computer."""

    patience_seconds = 120.0

    # What all remote machines share is tested behind ssh (tests/clouds/remote); here is what this seller adds to it.
    test_a_handle_is_a_plain_string = None
    test_its_times_are_in_order = None
    test_stopping_right_after_the_launch_ends_a_task = None
    test_stopping_twice_is_quiet = None
    test_money_grows_while_it_runs_and_no_longer = None
    test_a_cloud_opened_again_still_knows_what_ended = None
    test_a_task_ends_at_its_time_limit = None
    test_a_failing_task_fails_and_costs_what_it_cost = None

    @pytest.fixture(autouse=True)
    def _enter(self, ray_settings: RaySettings) -> None:
        self.settings = ray_settings

    def open_cloud(self, home: Path) -> Cloud:
        from mlcd.clouds.ray import open_cloud

        return open_cloud(replace(Settings(home=home), ray=self.settings), {})
