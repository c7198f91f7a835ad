"""Downloads committed checkpoints and outputs, each whole or not at all."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from mlcd.clouds.checkpoints import Trained, downloaded, is_here, prune, put_in_place
from mlcd.clouds.received import checkpoint_name, inside
from mlcd.clouds.remote.node import RemoteNode
from mlcd.errors import CloudError
from mlcd.worker import checkpoints as worker

LOOK_SECONDS = 0.5
COUNT_SECONDS = 5.0  # that the program's count at a save may take to come home


class Downloader:
    """Looks at what the first node has committed, and fetches the newest, in a thread beside the listening."""

    def __init__(
        self,
        node: RemoteNode,
        checkpoints: Path,
        keep: int,
        trained_at: Callable[[float], Trained],
        task_id: str,
    ) -> None:
        self._node = node
        self._checkpoints = checkpoints
        self._keep = keep
        self._trained_at = trained_at
        self._task_id = task_id
        self._downloaded: set[str] = set()
        self._asked_at: dict[str, float] = {}  # when a snapshot's count was first asked for
        self._turn = threading.Lock()
        self._closed = threading.Event()

    def start(self) -> None:
        """Begin to look, again and again."""
        threading.Thread(target=self._run, name="checkpoints", daemon=True).start()

    def close(self) -> None:
        """Look no more."""
        self._closed.set()

    def download(self, patient: bool = False) -> None:
        """Fetch the newest that is not here yet; a patient one leaves a snapshot whose count may still come."""
        with self._turn:
            for kind in ("checkpoints", "snapshots"):
                for name in map(checkpoint_name, self._node.agent.get(kind, [])[:1]):
                    new = f"{kind}/{name}" not in self._downloaded and not self._is_here(kind, name)
                    if new and self._fetch(kind, name, patient):
                        self._downloaded.add(f"{kind}/{name}")

    def _run(self) -> None:
        while not self._closed.wait(LOOK_SECONDS):
            # Pruned meanwhile, or away: the next look will do.
            with suppress(CloudError, OSError, ValueError):
                self.download(patient=True)

    def _is_here(self, kind: str, name: str) -> bool:
        return kind == "checkpoints" and is_here(self._checkpoints, name)

    def _fetch(self, kind: str, name: str, patient: bool) -> bool:
        """Download it; whether that was done, or given up for good."""
        later = False

        def fetch(file: str, target: Path, size: int) -> None:
            self._node.fetch(f"{kind}/{name}/{file}", target, size)

        def wanted(manifest: worker.Checkpoint) -> bool:
            nonlocal later
            moment = manifest.facts.samples
            later = kind == "snapshots" and patient and self._may_know_more(name, moment)
            return not later

        with downloaded(fetch, self._checkpoints, wanted) as found:
            if not later:
                self._commit(kind, name, found)
                prune(self._checkpoints, self._keep)
        return not later

    def _may_know_more(self, name: str, moment: float) -> bool:
        """Whether the program's count at its save is not home yet, but may be soon."""
        asked_at = self._asked_at.setdefault(name, time.monotonic())
        return not self._trained_at(moment).known and time.monotonic() - asked_at < COUNT_SECONDS

    def _commit(self, kind: str, name: str, found: worker.Checkpoint | None) -> None:
        """A checkpoint of the program keeps its name; a snapshot gets the samples that were done when it was made."""
        if found is None or found.sequence != int(name.split("-")[0]):
            raise CloudError(f"Checkpoint {name} of task {self._task_id} was broken on the way.")
        if kind == "checkpoints":
            put_in_place(found.path, inside(self._checkpoints, name))
            return
        (found.path / worker.MANIFEST).unlink()
        samples = self._trained_at(found.facts.samples).samples
        worker.commit(found.path, worker.Facts(samples, task_id=self._task_id))


def download_outputs(nodes: list[RemoteNode], into: Path) -> None:
    """Fetch what the program hands back; where several nodes have a file, the first one's counts."""
    downloaded: set[str] = set()
    for node in nodes:
        for name, size in node.agent.get("outputs", {}).items():
            if name not in downloaded:
                _download_file(node, name, size, into)
                downloaded.add(name)


def _download_file(node: RemoteNode, name: str, size: int, into: Path) -> None:
    target = inside(into, name)
    if target.is_file() and target.stat().st_size == size:
        return  # a runner before us downloaded it
    draft = into.parent / ".download"
    node.fetch(f"outputs/{name}", draft, size)
    if draft.stat().st_size != size:
        raise CloudError(f"Only {draft.stat().st_size} of the {size} bytes of '{name}' arrived.")
    target.parent.mkdir(parents=True, exist_ok=True)
    draft.replace(target)
