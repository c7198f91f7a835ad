"""Container engines that build and push an image: docker, podman or buildah, by their own commands."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mlcd.errors import CloudError, UserError

ENGINES = ("docker", "podman", "buildah")
_ASK_SECONDS = 20.0
# Lambda takes neither an index of images nor OCI's attestations.
_BUILD = {"docker": ("--provenance=false",), "podman": ("--format", "docker"), "buildah": ("--format", "docker")}


@dataclass(frozen=True)
class Engine:
    """One engine, by its name."""

    name: str

    def build(self, folder: Path, image: str) -> list[str]:
        """Build the image from a folder."""
        return [self.name, "build", "--platform", "linux/amd64", *_BUILD[self.name], "--tag", image, str(folder)]

    def login(self, registry: str) -> list[str]:
        """Log in to ECR; the password comes through standard input."""
        return [self.name, "login", "--username", "AWS", "--password-stdin", registry]

    def push(self, image: str) -> list[str]:
        """Send the image to its registry."""
        where = [f"docker://{image}"] if self.name == "buildah" else []
        return [self.name, "push", image, *where]

    def size(self, image: str) -> int | None:
        """Bytes of an image that was built; None: the engine does not say."""
        if self.name == "buildah":
            return None
        asked = [self.name, "image", "inspect", "--format", "{{.Size}}", image]
        done = subprocess.run(asked, capture_output=True, text=True, timeout=_ASK_SECONDS, check=False)
        return int(done.stdout) if done.returncode == 0 and done.stdout.strip().isdecimal() else None

    @property
    def works(self) -> bool:
        """Whether it is installed and answers: docker needs its daemon."""
        if shutil.which(self.name) is None:
            return False
        asked = [self.name, "info" if self.name == "podman" else "version"]
        try:
            return subprocess.run(asked, capture_output=True, timeout=_ASK_SECONDS, check=False).returncode == 0
        except (OSError, subprocess.TimeoutExpired):
            return False


def find_engine(name: str = "") -> Engine | None:
    """The one that is named, which must work, or the first that does; None: there is none."""
    if name and name not in ENGINES:
        raise UserError(f"No container engine is called '{name}'.", f"Use one of: {', '.join(ENGINES)}.")
    found = next((engine for engine in map(Engine, (name,) if name else ENGINES) if engine.works), None)
    if name and found is None:
        raise UserError(f"{name} does not answer here.", "Is it installed, and does its daemon run?")
    return found


def run(command: Sequence[str], given: str = "") -> None:
    """Run a command whose output the user sees, on standard error; an error says which command it was."""
    done = subprocess.run(command, input=given or None, text=True, stdout=sys.stderr, check=False)
    if done.returncode:
        raise CloudError(f"`{shlex.join(command)}` failed with exit code {done.returncode}.", "Its output is above.")
