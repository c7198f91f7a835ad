"""A Kubernetes cluster keeps the promises of a cloud, as far as a stand-in for kubectl can show it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from clouds.provider_contract import ProviderContract
from mlcd.clouds.base import Cloud
from mlcd.clouds.kubernetes import open_cloud
from mlcd.clouds.kubernetes.settings import KubernetesSettings
from mlcd.settings import Settings


@pytest.mark.slow
class TestKubernetesCloud(ProviderContract):
    """Real runners and agents; the pods are processes of this computer."""

    @pytest.fixture(autouse=True)
    def _enter(self, kube: KubernetesSettings) -> None:
        self.settings = kube

    def open_cloud(self, home: Path) -> Cloud:
        return open_cloud(replace(Settings(home=home), clouds=(self.settings,)), {})
