"""Brings committed checkpoints and outputs home, each whole or not at all."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from mlcd.clouds.checkpoints import prune
from mlcd.clouds.remote.node import RemoteNode
from mlcd.errors import CloudError
from mlcd.worker import checkpoints as worker

LOOK_SECONDS = 0.5


class Bringer:
    """Looks at what the first node has committed, and fetches the newest, in a thread beside the listening."""

    def __init__(
        self,
        node: RemoteNode,
        checkpoints: Path,
        keep: int,
        samples_at: Callable[[float], float],
        task_id: str,
    ) -> None:
        self._node = node
        self._checkpoints = checkpoints
        self._keep = keep
        self._samples_at = samples_at
        self._task_id = task_id
        self._brought: set[str] = set()
        self._turn = threading.Lock()
        self._closed = threading.Event()

    def start(self) -> None:
        """Begin to look, again and again."""
        threading.Thread(target=self._run, name="checkpoints", daemon=True).start()

    def close(self) -> None:
        """Look no more."""
        self._closed.set()

    def bring(self) -> None:
        """Fetch the newest that is not here yet."""
        with self._turn:
            for kind in ("checkpoints", "snapshots"):
                names = self._node.agent.get(kind, [])
                if names and f"{kind}/{names[0]}" not in self._brought and not self._is_here(kind, names[0]):
                    self._fetch(kind, names[0])
                    self._brought.add(f"{kind}/{names[0]}")

    def _run(self) -> None:
        while not self._closed.wait(LOOK_SECONDS):
            with suppress(
                CloudError, OSError, ValueError
            ):  # pruned meanwhile, or away: the next look will do
                self.bring()

    def _is_here(self, kind: str, name: str) -> bool:
        return kind == "checkpoints" and (self._checkpoints / name).is_dir()

    def _fetch(self, kind: str, name: str) -> None:
        partial = worker.begin(self._checkpoints)
        try:
            self._node.fetch(f"{kind}/{name}/{worker.MANIFEST}", partial / worker.MANIFEST)
            manifest = json.loads((partial / worker.MANIFEST).read_text())
            for file in manifest["files"]:
                self._node.fetch(f"{kind}/{name}/{file}", inside(partial, file))
            self._commit(kind, name, partial, manifest)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        prune(self._checkpoints, self._keep)

    def _commit(self, kind: str, name: str, partial: Path, manifest: dict[str, Any]) -> None:
        """A checkpoint of the program keeps its name; a snapshot gets the samples that were done when it was made."""
        found = worker.read_checkpoint(partial)
        if found is None or not found.is_intact():
            raise CloudError(f"Checkpoint {name} of task {self._task_id} was broken on the way.")
        if kind == "checkpoints":
            partial.rename(self._checkpoints / name)
            return
        (partial / worker.MANIFEST).unlink()
        worker.commit(partial, worker.Facts(self._samples_at(manifest["samples"]), task_id=self._task_id))


def bring_outputs(nodes: list[RemoteNode], into: Path) -> None:
    """Fetch what the program hands back; where several nodes have a file, the first one's counts."""
    brought: set[str] = set()
    for node in nodes:
        for name, size in node.agent.get("outputs", {}).items():
            if name not in brought:
                _bring_file(node, name, size, into)
                brought.add(name)


def _bring_file(node: RemoteNode, name: str, size: int, into: Path) -> None:
    target = inside(into, name)
    if target.is_file() and target.stat().st_size == size:
        return  # a courier before us brought it
    draft = into.parent / ".bringing"
    node.fetch(f"outputs/{name}", draft)
    if draft.stat().st_size != size:
        raise CloudError(f"Only {draft.stat().st_size} of the {size} bytes of '{name}' arrived.")
    target.parent.mkdir(parents=True, exist_ok=True)
    draft.replace(target)


def inside(folder: Path, name: str) -> Path:
    """A file's place in a folder; a name that leads out of it is refused, whoever sent it."""
    place = (folder / name).resolve()
    if not place.is_relative_to(folder.resolve()):
        raise CloudError(f"A machine named a file '{name}', which lies outside {folder}.")
    return place
