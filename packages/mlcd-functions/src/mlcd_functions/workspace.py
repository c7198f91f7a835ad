"""What a function has on its own disk; a warm one finds code and setup as it left them."""

from __future__ import annotations

import json
import math
import os
import shutil
import tempfile
import zipfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mlcd.clouds.checkpoints import downloaded, put_in_place
from mlcd.clouds.tasks.copies import Signatures, signatures
from mlcd.clouds.tasks.environment import node_environment
from mlcd.clouds.tasks.node import NodePrograms
from mlcd.worker import checkpoints
from mlcd.worker.bundle import write_bundle
from mlcd.worker.fetch import cache_without_home
from mlcd.worker.trees import files_inside
from mlcd_functions.messages import CODE, Event, checkpoint_key
from mlcd_functions.objects.base import ObjectStore
from mlcd_functions.objects.errors import ObjectNotFound, ObjectTooLarge

_RUNTIME_ONLY = ("AWS_LAMBDA_RUNTIME_API", "_HANDLER", "PYTHONPATH")


@dataclass(frozen=True)
class Workspace:
    """The folders of one task inside a function."""

    root: Path
    event: Event

    @property
    def code(self) -> Path:
        """The program's folder."""
        return self.root / "code"

    @property
    def checkpoints(self) -> Path:
        """Committed checkpoints, of which the object store has a copy."""
        return self.root / "checkpoints"

    @property
    def outputs(self) -> Path:
        """What the program hands back."""
        return self.root / "outputs"

    @property
    def progress(self) -> Path:
        """What the program reports in this invocation."""
        return self.root / f"progress-{self.event.invocation_id}"

    @property
    def log(self) -> Path:
        """What the program prints in this invocation."""
        return self.root / f"{self.event.invocation_id}.log"

    @property
    def kept(self) -> Path:
        """What its programs keep of their newest iteration: it outlives them, and ends with the function."""
        return self.root / "kept"

    @property
    def sync_sign(self) -> Path:
        """Why mlcd.sync could not go on in the program, written by the program itself."""
        return self.root / f"sync-{self.event.invocation_id}.json"

    def read_sync_sign(self) -> dict[str, str]:
        """The same as facts of a report."""
        try:
            sign = json.loads(self.sync_sign.read_text())
            ranks = ",".join(str(int(rank)) for rank in sign["ranks"])
            return {"sync_error": str(sign["error"]), "missing": ranks}
        except (OSError, ValueError, LookupError, TypeError):
            return {"sync_error": "", "missing": ""}

    def fetch(self, objects: ObjectStore) -> None:
        """Bring the code here, unless an earlier invocation did."""
        for folder in (self.checkpoints, self.outputs, self.progress):
            folder.mkdir(parents=True, exist_ok=True)
        if self.event.setup:
            self._begin_rank()
        if self._before.is_file():
            return
        shutil.rmtree(self.code, ignore_errors=True)
        self.code.mkdir()
        archive = self.root / CODE
        objects.download(CODE, archive)
        with zipfile.ZipFile(archive) as packed:
            for entry in packed.infolist():
                self._unpack(packed, entry)
        archive.unlink()
        write_bundle(self.root / "worker")
        self._before.write_text(json.dumps(signatures(self.code)))

    def _begin_rank(self) -> None:
        """Forget what `setup` has made for another rank, such as its part of the data: any rank may get a warm function."""
        served, rank = self.root / "rank", str(self.event.rank)
        if served.is_file() and served.read_text() != rank:
            shutil.rmtree(cache_without_home(), ignore_errors=True)
            for mark in (self._before, self._set_up):
                mark.unlink(missing_ok=True)
        served.write_text(rank)

    def needs_setup(self) -> bool:
        """Whether `setup` has not been run here."""
        return bool(self.event.setup) and not self._set_up.is_file()

    def note_setup(self) -> None:
        """It has been run."""
        self._set_up.touch()

    def place_checkpoint(self, objects: ObjectStore, name: str) -> Path | None:
        """Have this checkpoint here, and no other: all functions must start from the same."""
        wanted = self.checkpoints / name if name else None
        for folder in list(self.checkpoints.iterdir()):
            if folder != wanted:
                shutil.rmtree(folder, ignore_errors=True)
        if wanted is None or _intact(wanted):
            return wanted
        shutil.rmtree(wanted, ignore_errors=True)
        fetch_checkpoint(objects, name, self.checkpoints)
        return wanted

    def collect(self, objects: ObjectStore, program: NodePrograms) -> None:
        """Ship what the program hands back."""
        program.before = self._signatures()
        program.collect(self.event.outputs, self.outputs)
        for file in files_inside(self.outputs):
            objects.upload(file, f"outputs/{file.relative_to(self.outputs).as_posix()}")

    def environment(self) -> dict[str, str]:
        """What the program gets of its container, with the task's own variables."""
        return node_environment(
            {name: value for name, value in os.environ.items() if name not in _RUNTIME_ONLY},
            {**self.event.envs, **self.event.secrets},
            [str(self.root / "worker"), os.environ.get("LAMBDA_TASK_ROOT", "")],
            copy=self.code,
            progress=self.progress,
            checkpoints=self.checkpoints,
            outputs=self.outputs,
        )

    @property
    def _set_up(self) -> Path:
        return self.root / "set-up"

    @property
    def _before(self) -> Path:
        return self.root / "fetched.json"

    def _signatures(self) -> Signatures:
        known = json.loads(self._before.read_text())
        return {name: (int(size), int(changed)) for name, (size, changed) in known.items()}

    def _unpack(self, packed: zipfile.ZipFile, entry: zipfile.ZipInfo) -> None:
        path = Path(packed.extract(entry, self.code))
        if (entry.external_attr >> 16) & 0o100 and path.is_file():
            path.chmod(0o755)


def open_workspace(event: Event) -> Workspace:
    """The task's folders in what this function may write to."""
    root = Path(tempfile.gettempdir()) / f"mlcd-{event.task_id}"
    root.mkdir(parents=True, exist_ok=True)
    return Workspace(root, event)


def fetch_checkpoint(objects: ObjectStore, name: str, into: Path, most_bytes: float = math.inf) -> Path | None:
    """Download a checkpoint of so many bytes at most from the object store; None: it is not there in one piece."""

    def fetch(file: str, target: Path, size: int) -> None:
        objects.download(checkpoint_key(name, file), target, size)

    def fits(manifest: checkpoints.Checkpoint) -> bool:
        return manifest.bytes <= most_bytes

    with suppress(ObjectNotFound, ObjectTooLarge), downloaded(fetch, into, fits) as found:
        if found is not None:
            put_in_place(found.path, into / name)
            return into / name
    return None


def ship_checkpoint(objects: ObjectStore, folder: Path) -> None:
    """Copy a committed checkpoint to the object store; it counts once its manifest is there."""
    found = checkpoints.read_checkpoint(folder)
    for file in sorted(found.files) if found is not None else ():
        objects.upload(folder / file, checkpoint_key(folder.name, file))
    objects.upload(folder / checkpoints.MANIFEST, checkpoint_key(folder.name, checkpoints.MANIFEST))


def _intact(folder: Path) -> bool:
    found = checkpoints.read_checkpoint(folder)
    return found is not None and found.is_intact()
