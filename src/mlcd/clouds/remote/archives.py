"""What a machine is sent: agent and worker, the program's folder, mounted files, and the checkpoint to go on from."""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from mlcd.clouds.checkpoints import newest_complete
from mlcd.clouds.tasks.copies import entries_of
from mlcd.clouds.tasks.node import NODE_FILES
from mlcd.core.task import Task
from mlcd.errors import UserError
from mlcd.worker.bundle import write_bundle
from mlcd.worker.trees import is_below


@dataclass(frozen=True)
class Archive:
    """A packed file and the folder on the machine that it is unpacked into, relative to the task's."""

    file: Path
    into: str
    names: tuple[str, ...] = ()  # of what is at its top

    @property
    def bytes(self) -> int:
        """Its size on the way."""
        return self.file.stat().st_size


def make_archives(task: Task, checkpoints: Path, skip: Path, drafts: Path) -> list[Archive]:
    """Everything that each machine of a task gets, packed; the drafts folder is made anew."""
    shutil.rmtree(drafts, ignore_errors=True)
    drafts.mkdir(parents=True)
    archives = [_pack(drafts / "bundle.tgz", _bundle(drafts / "bundle"), "bundle")]
    archives.append(_pack(drafts / "copy.tgz", _workdir(task, skip), "copy"))
    archives += [_mount(task, where, drafts, skip) for where in task.file_mounts]
    newest = newest_complete(checkpoints)
    if newest is not None:
        archives.append(_pack(drafts / "checkpoint.tgz", _checkpoint(newest), "checkpoints"))
    return archives


def _bundle(folder: Path) -> dict[str, Path]:
    """The worker for the program, and the agent for us."""
    write_bundle(folder)
    source = Path(__file__).resolve().parents[2]
    agent = [str(path.relative_to(source)) for path in (source / "clouds/remote/agent").glob("*.py")]
    for name in (*NODE_FILES, "clouds/remote/__init__.py", *agent):
        target = folder / "lib" / "mlcd" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / name, target)
    return _tree(folder, "")


def _workdir(task: Task, skip: Path) -> dict[str, Path]:
    if not task.workdir:
        return {}
    workdir = Path(task.workdir)
    if not workdir.is_dir():
        raise UserError(f"The workdir {workdir} is not a folder.", "Fix `workdir` in the job.")
    return {str(path.relative_to(workdir)): path for path in entries_of(workdir, skip)}


def _mount(task: Task, where: str, drafts: Path, skip: Path) -> Archive:
    """A mount goes to its place in the working copy, or to the absolute path on the machine that it names."""
    origin = (Path(task.workdir) / Path(task.file_mounts[where]).expanduser()).resolve()
    if not origin.exists():
        raise UserError(f"file_mounts: there is no {origin}.", "Fix `file_mounts` in the job.")
    place = PurePosixPath(where.replace("~", "/root", 1) if where.startswith("~/") else where)
    content = _tree(origin, place.name, skip) if origin.is_dir() else {place.name: origin}
    number = len(list(drafts.glob("mount-*")))
    parent = place.parent if place.is_absolute() else PurePosixPath("copy") / place.parent
    return _pack(drafts / f"mount-{number}.tgz", content, str(parent))


def _tree(folder: Path, name: str, skip: Path | None = None) -> dict[str, Path]:
    entries = entries_of(folder, skip or folder)
    return {name: folder} | {str(PurePosixPath(name, path.relative_to(folder))): path for path in entries}


def _checkpoint(folder: Path) -> dict[str, Path]:
    """All of a checkpoint but for links out of it: a program made it, and what lies here is not for its machines."""
    root = Path(os.path.realpath(folder))
    return {name: path for name, path in _tree(folder, folder.name).items() if is_below(os.path.realpath(path), root)}


def _pack(file: Path, content: Mapping[str, Path], into: str) -> Archive:
    """A gzipped tar file, packed fast rather than small; links that lead out of the folder become what they mean."""
    with tarfile.open(file, "w:gz", compresslevel=1) as tar:
        for name, path in sorted(content.items()):
            if not name or not (path.is_file() or path.is_dir()):
                continue
            outside = path.is_symlink() and path.readlink().is_absolute()
            tar.add(path.resolve() if outside else path, arcname=name, recursive=False)
    names = {PurePosixPath(name).parts[0] for name in content if name}
    return Archive(file, into, tuple(sorted(names)))
