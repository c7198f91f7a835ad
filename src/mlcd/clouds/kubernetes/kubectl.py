"""Runs kubectl, and says in plain words what it said."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlcd.errors import CloudError, UserError

SECONDS = 30.0


@dataclass(frozen=True)
class Kubectl:
    """The command, with the cluster and the namespace that it works on."""

    command: str
    context: str
    namespace: str

    @staticmethod
    def of(options: Mapping[str, Any]) -> Kubectl:
        """As the settings say."""
        return Kubectl(str(options["kubectl"]), str(options["context"]), str(options["namespace"]))

    def arguments(self, *words: str) -> list[str]:
        """The whole command line."""
        context = ["--context", self.context] if self.context else []
        return [self.command, *context, "--namespace", self.namespace, *words]

    def run(
        self, *words: str, stdin: bytes = b"", seconds: float = SECONDS
    ) -> subprocess.CompletedProcess[bytes]:
        """Run it to its end; TimeoutExpired where that takes too long."""
        try:
            return subprocess.run(
                self.arguments(*words), input=stdin, capture_output=True, timeout=seconds, check=False
            )
        except FileNotFoundError as error:
            raise UserError(
                f"There is no '{self.command}' on this computer.",
                "Install kubectl, or set kubernetes.kubectl (MLCD_KUBERNETES_KUBECTL) to where it is.",
            ) from error

    def must(self, *words: str, stdin: bytes = b"", seconds: float = SECONDS) -> bytes:
        """What it prints; CloudError where it fails."""
        try:
            done = self.run(*words, stdin=stdin, seconds=seconds)
        except subprocess.TimeoutExpired as error:
            raise CloudError(f"kubectl {words[0]} did not end within {seconds:g} seconds.") from error
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip()[-500:]
            raise CloudError(f"kubectl {words[0]} failed: {said}", "Try `kubectl get nodes` by hand.")
        return done.stdout

    def items(self, *words: str) -> Sequence[dict[str, Any]]:
        """The objects that `get` lists."""
        found: list[dict[str, Any]] = json.loads(self.must("get", *words, "--output", "json"))["items"]
        return found
