"""A Kubernetes cluster keeps the promises of a cloud, as far as a stand-in for kubectl can show it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mlcd.clouds.base import Cloud
from mlcd.clouds.kubernetes import open_cloud
from mlcd.settings import KubernetesSettings, Settings
from mlcd.testing import CloudContract


@pytest.mark.slow
class TestKubernetesCloud(CloudContract):
    """Real couriers and agents; the pods are processes of this computer."""

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
    def _enter(self, kube: KubernetesSettings) -> None:
        self.settings = kube

    def open_cloud(self, home: Path) -> Cloud:
        return open_cloud(replace(Settings(home=home), kubernetes=self.settings), {})
