"""A Kubernetes cluster that is a folder and some processes."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from mlcd.settings import KubernetesSettings


def node(name: str, pool: str = "small", cpu: str = "2", **more: Any) -> dict[str, Any]:
    """A node as `kubectl get nodes` lists it."""
    return {
        "metadata": {
            "name": name,
            "labels": {"cloud.google.com/gke-nodepool": pool, **more.get("labels", {})},
        },
        "spec": more.get("spec", {}),
        "status": {
            "allocatable": {"cpu": cpu, "memory": "4Gi", **more.get("allocatable", {})},
            "conditions": [{"type": "Ready", "status": more.get("ready", "True")}],
        },
    }


@pytest.fixture
def kube(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KubernetesSettings:
    """How to reach it: two small nodes, kubectl being a stand-in."""
    root = tmp_path / "kube"
    (root / "nodes").mkdir(parents=True)
    for number in (1, 2):
        (root / "nodes" / f"n{number}.json").write_text(json.dumps(node(f"n{number}")))
    command = tmp_path / "kubectl"
    script = Path(__file__).with_name("fake_kubectl.py")
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -SE {shlex.quote(str(script))} "$@"\n')
    command.chmod(0o755)
    monkeypatch.setenv("FAKE_KUBE", str(root))
    return KubernetesSettings(
        kubectl=str(command), folder=str(root / "mlcd"), wait_seconds=60, lost_seconds=10
    )
