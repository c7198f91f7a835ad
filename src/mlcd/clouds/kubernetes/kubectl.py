"""Runs kubectl, and says in plain words what it said."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

from mlcd.clouds.kubernetes.errors import in_words, kind_of
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
        self, *words: str, stdin: bytes | IO[bytes] = b"", seconds: float = SECONDS
    ) -> subprocess.CompletedProcess[bytes]:
        """Run it to its end; a file for stdin is streamed. TimeoutExpired where that takes too long."""
        source: dict[str, Any] = {"input": stdin} if isinstance(stdin, bytes) else {"stdin": stdin}
        try:
            return subprocess.run(self.arguments(*words), capture_output=True, timeout=seconds, check=False, **source)
        except FileNotFoundError as error:
            raise no_kubectl(self.command) from error

    def must(self, doing: str, *words: str, stdin: bytes = b"", seconds: float = SECONDS) -> bytes:
        """What it prints; an error that says what could not be done where it fails."""
        done = self.in_time(doing, *words, stdin=stdin, seconds=seconds)
        if done.returncode:
            raise in_words(doing, done.stderr.decode(errors="replace"))
        return done.stdout

    def items(self, doing: str, *words: str) -> Sequence[dict[str, Any]]:
        """The objects that `get` lists."""
        found: list[dict[str, Any]] = json.loads(self.must(doing, "get", *words, "--output", "json"))["items"]
        return found

    def create(self, doing: str, manifest: Mapping[str, Any], seconds: float = SECONDS) -> bool:
        """Have it made; False: there is one of that name."""
        content = json.dumps(manifest).encode()
        done = self.in_time(doing, "create", "--filename", "-", stdin=content, seconds=seconds)
        said = done.stderr.decode(errors="replace")
        if done.returncode and kind_of(said) != "AlreadyExists":
            raise in_words(doing, said)
        return not done.returncode

    def in_time(
        self, doing: str, *words: str, stdin: bytes = b"", seconds: float = SECONDS
    ) -> subprocess.CompletedProcess[bytes]:
        """Run it to its end; an error that says what could not be done where that takes too long."""
        try:
            return self.run(*words, stdin=stdin, seconds=seconds)
        except subprocess.TimeoutExpired as error:
            raise CloudError(f"kubectl could not {doing} within {seconds:g} seconds.") from error


def no_kubectl(command: str) -> UserError:
    """Why nothing can be asked."""
    return UserError(
        f"There is no '{command}' on this computer.",
        "Install kubectl, or set kubernetes.kubectl (MLCD_KUBERNETES_KUBECTL) to where it is.",
    )
