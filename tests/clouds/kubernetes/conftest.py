"""A Kubernetes cluster that is a folder and some processes."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from mlcd.clouds.kubernetes.settings import KubernetesSettings

PAGE = Path(__file__).parents[3] / "docs/how-to/kubernetes.md"


def node(name: str, pool: str = "small", cpu: str = "2", **more: Any) -> dict[str, Any]:
    """A node as `kubectl get nodes` lists it."""
    return {
        "kind": "Node",
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


def documented_rights(optional: bool = True) -> list[str]:
    """What the page says that mlcd needs: 'list nodes', 'create pods/exec' …; without what it can do without, if not wanted."""
    text = PAGE.read_text()
    block = text[text.index("```yaml\napiVersion: rbac") + len("```yaml\n") :]
    roles = list(yaml.safe_load_all(block[: block.index("```")]))
    rights = [
        f"{verb} {resource}"
        for role in roles
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    ]
    return [right for right in rights if optional or right != "list events"]


@dataclass(frozen=True)
class Cluster:
    """The stand-in, and what only an administrator of a cluster does."""

    root: Path
    settings: KubernetesSettings

    def add(self, *nodes: dict[str, Any]) -> None:
        """Have these nodes; one that is there is changed."""
        (self.root / "nodes").mkdir(parents=True, exist_ok=True)
        for each in nodes:
            (self.root / "nodes" / f"{each['metadata']['name']}.json").write_text(json.dumps(each))

    def configure(self, **facts: Any) -> None:
        """Rights, namespaces, images, max_pods: see fake_kubectl.py."""
        file = self.root / "cluster.json"
        before = json.loads(file.read_text()) if file.exists() else {}
        file.write_text(json.dumps({**before, **facts}))

    @property
    def rights(self) -> list[str]:
        """What the user may do."""
        rights: list[str] = json.loads((self.root / "cluster.json").read_text())["rights"]
        return rights

    def forbid(self, *rights: str) -> None:
        """Take rights away from the user."""
        self.configure(rights=[right for right in documented_rights() if right not in rights])

    def kubectl(self, *words: str) -> str:
        """What the administrator's kubectl prints."""
        done = subprocess.run([self.settings.kubectl, *words], capture_output=True, text=True, check=True)
        return done.stdout

    def cut(self, pod: str) -> None:
        """End every kubectl that is in this pod."""
        for process in psutil.process_iter():
            words = _words_of(process)
            if "exec" in words and pod in words and self._is_ours(process):
                _kill(process.pid)

    def drain(self, name: str) -> None:
        """Take all pods off a node."""
        self.kubectl("drain", name)

    @property
    def calls(self) -> list[str]:
        """Each call of kubectl so far."""
        return (self.root / "calls").read_text().splitlines() if (self.root / "calls").exists() else []

    @property
    def execs(self) -> int:
        """How many commands or sessions in pods were begun."""
        return sum(" exec " in call for call in self.calls)

    def objects(self, kind: str) -> list[dict[str, Any]]:
        """What there is of a kind, as the files say."""
        return [json.loads(file.read_text()) for file in sorted((self.root / kind).glob("*.json"))]

    def close(self) -> None:
        """Nothing of it goes on."""
        for _ in range(2):
            for process in psutil.process_iter():
                if self._is_ours(process):
                    _kill(process.pid)

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            environ, command = process.environ(), " ".join(process.cmdline()[:4])
        except (psutil.Error, OSError):  # it has ended meanwhile, too
            return False
        ours = environ.get("FAKE_KUBE") == str(self.root)
        return ours and process.pid != os.getpid() and "pytest" not in command


def _words_of(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """Two small nodes, kubectl being a stand-in; the user has the rights that the page says and no others."""
    root = tmp_path / "kube"
    root.mkdir()
    command = tmp_path / "kubectl"
    script = Path(__file__).with_name("fake_kubectl.py")
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -SE {shlex.quote(str(script))} "$@"\n')
    command.chmod(0o755)
    monkeypatch.setenv("FAKE_KUBE", str(root))
    settings = KubernetesSettings(kubectl=str(command), folder=str(root / "mlcd"), wait_seconds=60, lost_seconds=10)
    made = Cluster(root, settings)
    made.add(node("n1"), node("n2"))
    made.configure(rights=documented_rights())
    yield made
    made.close()


@pytest.fixture
def kube(cluster: Cluster) -> KubernetesSettings:
    """How to reach it."""
    return cluster.settings
