"""What a machine sends home is checked: a machine that was taken over must not write, read or fill anything here."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from loopback_machines import Door
from mlcd.clouds import received
from mlcd.clouds.checkpoints import Trained
from mlcd.clouds.remote.base import CommandResult, Machine, Reach
from mlcd.clouds.remote.download import Downloader, download_outputs
from mlcd.clouds.remote.lease import Lease
from mlcd.clouds.remote.node import RemoteNode
from mlcd.clouds.remote.ssh import SshReach
from mlcd.core.task import TaskFolder
from mlcd.errors import CloudError
from mlcd.worker import checkpoints as worker

GOOD: dict[str, Any] = {"phase": "running", "beat": 1.0, "why": "", "codes": [None], "ended_at": None}


class FolderReach:
    """A machine that is a folder; a link on it comes home as a link."""

    def __init__(self, base: Path) -> None:
        self.base = str(base)

    def run(self, command: str, stdin: bytes = b"", seconds: float = 60.0) -> CommandResult:
        raise NotImplementedError

    def put(self, archive: Path, folder: str) -> None:
        raise NotImplementedError

    def read(self, path: str, offset: int = 0, most: int = 4 << 20) -> bytes | None:
        file = Path(path)
        return file.read_bytes()[offset : offset + most] if file.is_file() else None

    def write(self, path: str, content: bytes) -> None:
        Path(path).write_bytes(content)

    def fetch(self, path: str, target: Path, most: int) -> None:
        shutil.copyfile(path, target, follow_symlinks=False)

    def close(self) -> None:
        pass


class World:
    """A machine, and the home that hears of it."""

    def __init__(self, root: Path, reach: Reach | None = None) -> None:
        self.home = root / "home"
        self.checkpoints = self.home / "jobs" / "j" / "checkpoints"
        self.folder = TaskFolder(self.home / "jobs" / "j" / "tasks" / "t")
        self.machine = root / "machine" / "tasks" / "t"
        (self.machine / "control").mkdir(parents=True)
        self.checkpoints.mkdir(parents=True)
        self.folder.progress.mkdir(parents=True)
        reach = reach or FolderReach(root / "machine")
        lease = Lease(reach, "", 600.0)
        self.node = RemoteNode(0, Machine("m", "h", "h", 0.0), reach, lease, "t", "", self.folder)
        self.downloader = Downloader(self.node, self.checkpoints, 2, lambda moment: Trained(7.0), "t")

    def says(self, **words: Any) -> None:
        (self.machine / "control" / "state.json").write_text(json.dumps({**GOOD, **words}))
        self.node.poll()

    def commits(self, kind: str = "checkpoints", **files: str) -> Path:
        partial = worker.begin(self.machine / kind)
        for name, content in files.items():
            (partial / name).write_text(content)
        return worker.commit(partial, worker.Facts(100.0))

    def outside(self) -> list[str]:
        """What lies at home, but for what belongs there."""
        ours = (self.checkpoints, self.folder.root)
        files = (path for path in self.home.rglob("*") if path.is_file() or path.is_symlink())
        return [str(path) for path in files if not any(path.is_relative_to(folder) for folder in ours)]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_checkpoint_comes_home_under_its_name(world: World) -> None:
    made = world.commits(model="weights")
    world.says(checkpoints=[made.name])
    world.downloader.download()
    assert (world.checkpoints / made.name / "model").read_text() == "weights"
    assert [path.name for path in world.checkpoints.iterdir()] == [made.name]


def test_a_checkpoint_that_was_set_aside_makes_room_for_a_new_one_of_its_name(world: World) -> None:
    partial = worker.begin(world.checkpoints)
    (partial / "model").write_text("rubbish")
    bad = worker.read_checkpoint(worker.commit(partial, worker.Facts(100.0)))
    assert bad is not None
    worker.refuse(bad, "task-7")
    made = world.commits(model="weights")
    assert made.name == bad.path.name
    world.says(checkpoints=[made.name])
    world.downloader.download()
    newest = worker.newest_intact(world.checkpoints)
    assert newest is not None
    assert (newest.path / "model").read_text() == "weights"


@pytest.mark.parametrize("name", ["../../../../.ssh", "/root/.ssh", "..", "000001-100/../../x", "model", "", 7])
@pytest.mark.parametrize("kind", ["checkpoints", "snapshots"])
def test_a_checkpoint_is_not_put_where_its_name_leads(world: World, kind: str, name: Any) -> None:
    made = world.commits(kind, authorized_keys="ssh-ed25519 intruder")
    if isinstance(name, str) and name and not name.startswith("/"):
        shutil.copytree(made, (world.machine / kind / name).resolve(), dirs_exist_ok=True)
    with pytest.raises(CloudError, match="cannot be right"):
        world.says(**{kind: [name]})
    world.node.agent = {**GOOD, kind: [name]}  # even where it was heard
    with pytest.raises((CloudError, OSError)):
        world.downloader.download()
    assert world.outside() == []


@pytest.mark.parametrize("file", ["../../../../authorized_keys", "/tmp/mlcd-intruder", "a/../../b", ""])
def test_files_of_a_manifest_do_not_lead_out_of_the_checkpoint(world: World, file: str) -> None:
    made = world.commits(model="weights")
    manifest = json.loads((made / worker.MANIFEST).read_text())
    manifest["files"][file] = manifest["files"].pop("model")
    (made / worker.MANIFEST).write_text(json.dumps(manifest))
    world.says(checkpoints=[made.name])
    with pytest.raises(CloudError, match="broken on the way"):
        world.downloader.download()
    assert world.outside() == []
    assert not Path("/tmp/mlcd-intruder").exists()  # that is the point


def test_a_checkpoint_of_another_number_than_its_name_is_refused(world: World) -> None:
    made = world.commits(model="weights")
    made.rename(made.with_name("999999-100"))
    world.says(checkpoints=["999999-100"])
    with pytest.raises(CloudError, match="broken on the way"):
        world.downloader.download()
    assert list(world.checkpoints.iterdir()) == []


@pytest.mark.parametrize("kind", ["outputs", "checkpoints"])
def test_a_link_that_a_machine_sends_is_no_file(world: World, tmp_path: Path, kind: str) -> None:
    (tmp_path / "key").write_text("secret")
    if kind == "outputs":
        (world.machine / "outputs").mkdir()
        (world.machine / "outputs" / "model.pt").symlink_to(tmp_path / "key")
        world.says(outputs={"model.pt": 6})
        with pytest.raises(CloudError, match="that is none"):
            download_outputs([world.node], world.folder.outputs)
    else:
        made = world.commits(model="secret")
        (made / "model").unlink()
        (made / "model").symlink_to(tmp_path / "key")
        world.says(checkpoints=[made.name])
        with pytest.raises(CloudError, match="that is none"):
            world.downloader.download()
    assert not [path for path in world.home.rglob("*") if path.is_symlink()]


@pytest.mark.parametrize("name", ["../model.pt", "/etc/cron.d/x", "a/../../b", "."])
def test_outputs_stay_in_their_folder(world: World, name: str) -> None:
    with pytest.raises(CloudError, match="cannot be right"):
        world.says(outputs={name: 1})
    world.node.agent = {**GOOD, "outputs": {name: 1}}
    with pytest.raises(CloudError, match="does not lie within"):
        download_outputs([world.node], world.folder.outputs)
    assert world.outside() == []


@pytest.mark.parametrize(
    "words",
    [
        {"progress": {"../rank-0.jsonl": 1}},
        {"progress": {"authorized_keys": 1}},
        {"progress": ["rank-0.jsonl"]},
        {"log": -1},
        {"log": "much"},
        {"log": 2**70},
        {"outputs": {"model.pt": 1e300}},
        {"checkpoints": "000001-1"},
        {"checkpoints": ["000001-1"] * (received.MOST_NAMES + 1)},
        {"usage": {"cpu_share": float("nan")}},
        {"usage": {"cpu_share": 0.5}},
        {"codes": "none"},
        {"codes": [2**40]},
        {"ended_at": "now"},
        {"beat": None},
        {"beat": 10**400},
        {"ended_at": -(10**400)},
        {"usage": {"cpu_share": 10**400}},
    ],
)
def test_words_that_no_agent_would_say_are_refused(world: World, words: dict[str, Any]) -> None:
    with pytest.raises(CloudError, match="cannot be right"):
        world.says(**words)
    assert world.node.agent == {}


def test_an_end_without_a_reason_is_refused(world: World) -> None:
    (world.machine / "control" / "state.json").write_text('{"phase": "ended", "beat": 1}')
    with pytest.raises(CloudError, match="'why'"):
        world.node.poll()


@pytest.mark.parametrize("text", ["[1]", "7", '"x"', "null"])
def test_a_state_that_is_no_mapping_is_refused(world: World, text: str) -> None:
    (world.machine / "control" / "state.json").write_text(text)
    with pytest.raises(CloudError, match="no state"):
        world.node.poll()


def test_nothing_is_brought_that_would_fill_the_disk(world: World) -> None:
    world.says(outputs={"model.pt": 2**62})
    with pytest.raises(CloudError, match="no room"):
        download_outputs([world.node], world.folder.outputs)


def test_links_on_a_machine_come_as_files_and_no_more_bytes_than_it_named(tmp_path: Path, door: Door) -> None:
    there = tmp_path / "there"
    there.mkdir()
    (there / "model.pt").write_bytes(os.urandom(300_000))
    (there / "link").symlink_to(there / "model.pt")
    options = door.options
    reach = SshReach(
        "127.0.0.1",
        str(options["user"]),
        Path(options["key"]),
        tmp_path / "known",
        str(there),
        int(options["port"]),
    )
    (tmp_path / "key").write_text("secret")
    (tmp_path / "here").symlink_to(tmp_path / "key")
    reach.fetch(f"{there}/link", tmp_path / "here", 300_000)
    assert not (tmp_path / "here").is_symlink()
    assert (tmp_path / "here").read_bytes() == (there / "model.pt").read_bytes()
    assert (tmp_path / "key").read_text() == "secret"
    with pytest.raises(CloudError, match=r"more of 'model\.pt'"):
        reach.fetch(f"{there}/model.pt", tmp_path / "here", 1000)
    reach.close()
