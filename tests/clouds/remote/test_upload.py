"""What several machines get leaves home once: the first of them passes it on."""

from __future__ import annotations

import io
import json
import os
import socket
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mlcd.clouds.remote import upload
from mlcd.clouds.remote.agent.relay import pour
from mlcd.clouds.remote.archives import Archive, make_archives
from mlcd.clouds.remote.upload import Upload
from mlcd.core.task import Task, TaskKind
from mlcd.errors import CloudError
from mlcd.worker import checkpoints
from older_python import too_young

PASSING = (sys.executable, "-m", "mlcd.clouds.remote.agent.relay")


class Machine:
    """A machine that writes down what it is asked to do."""

    def __init__(self, name: str, reaches_others: bool = True) -> None:
        self.machine = SimpleNamespace(address=name)
        self.reaches_others = reaches_others
        self.sent: list[str] = []
        self.fetched: list[str] = []

    def send(self, archives: Sequence[Archive]) -> None:
        self.sent += [archive.into for archive in archives]

    def place_of(self, archive: Archive) -> str:
        return f"/base/{archive.into}"

    def serve_archives(self, spec: Mapping[str, Any], archives: Sequence[Archive], python: str) -> None:
        """It would pass them on."""

    def fetch_archives(self, spec: Mapping[str, Any], archives: Sequence[Archive], python: str) -> None:
        if not self.reaches_others:
            raise CloudError("nobody answers")
        self.fetched += spec["urls"]


@pytest.fixture
def archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Archive]:
    monkeypatch.setattr(upload, "LARGE_BYTES", 100)
    for name, size in (("code", 10), ("data", 1000)):
        (tmp_path / name).write_bytes(bytes(size))
    return [Archive(tmp_path / name, name, (name,)) for name in ("code", "data")]


def deliver(archives: list[Archive], machines: list[Machine]) -> None:
    made = Upload(archives, machines, "python3")  # type: ignore[arg-type]  # all that it asks of a machine
    for act in (made.send, made.relay):
        for machine in machines:
            act(machine)  # type: ignore[arg-type]  # as above


def test_large_archives_are_sent_once_and_fetched_by_the_others(archives: list[Archive]) -> None:
    first, second, third = machines = [Machine("a"), Machine("b"), Machine("c")]
    deliver(archives, machines)
    assert first.sent == ["code", "data"]
    assert second.sent == third.sent == ["code"]
    assert [url.split("/")[2].split(":")[0] for url in second.fetched] == ["a"]
    assert second.fetched == third.fetched


def test_a_machine_that_does_not_reach_the_first_gets_its_own_from_home(archives: list[Archive]) -> None:
    apart = Machine("b", reaches_others=False)
    deliver(archives, [Machine("a"), apart])
    assert apart.sent == ["code", "data"]


def test_a_single_machine_gets_everything_from_home(archives: list[Archive]) -> None:
    alone = Machine("a")
    deliver(archives, [alone])
    assert sorted(alone.sent) == ["code", "data"]
    assert alone.fetched == []


def test_what_is_passed_on_arrives_whole_and_only_with_the_token(tmp_path: Path) -> None:
    origin = tmp_path / "origin"
    (origin / "data").mkdir(parents=True)
    (origin / "data" / "numbers").write_bytes(os.urandom(5 << 20))
    (origin / "data" / "link").symlink_to("numbers")
    (origin / "private").write_text("not in the archive")
    port = _free_port()
    serving = {
        "address": "127.0.0.1",
        "port": port,
        "token": "secret",
        "answers": 2,
        "idle_seconds": 60,
        "archives": [[str(origin), ["data"]]],
    }
    with _started("serve", serving) as server:
        assert _fetch(port, "guess", tmp_path / "x").returncode != 0
        for name in ("one", "two"):
            assert _fetch(port, "secret", tmp_path / name).returncode == 0
        assert server.wait(timeout=60) == 0, "it ends when all have been served"
    for name in ("one", "two"):
        came = tmp_path / name
        assert (came / "data" / "numbers").read_bytes() == (origin / "data" / "numbers").read_bytes()
        assert (came / "data" / "link").readlink() == Path("numbers")
        assert not (came / "private").exists()


def test_a_stream_that_breaks_off_between_two_files_is_not_whole() -> None:
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as tar:
        for name in ("one", "two"):
            tar.addfile(tarfile.TarInfo(name))
    assert pour(io.BytesIO(whole.getvalue()), io.BytesIO())
    assert not pour(io.BytesIO(whole.getvalue()[:512]), io.BytesIO())


def _fetch(port: int, token: str, folder: Path) -> subprocess.CompletedProcess[bytes]:
    spec = {"urls": [f"http://127.0.0.1:{port}/{token}/0"], "folders": [str(folder)], "seconds": 60}
    given = json.dumps(spec).encode()
    return subprocess.run([*PASSING, "fetch"], input=given, capture_output=True, timeout=120, check=False)


def _started(what: str, spec: dict[str, Any]) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([*PASSING, what], stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(json.dumps(spec).encode())
    process.stdin.close()
    return process


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_checkpoint_takes_nothing_of_this_computer_along(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("secret")
    partial = checkpoints.begin(tmp_path / "checkpoints")
    (partial / "model").write_text("weights")
    made = checkpoints.commit(partial, checkpoints.Facts(1.0))
    (made / "absolute").symlink_to(tmp_path / "key")
    (made / "relative").symlink_to("../../key")
    (made / "latest").symlink_to("model")
    task = Task("t", "j", TaskKind.TRAINING, "command", "true")
    archives = make_archives(task, tmp_path / "checkpoints", tmp_path / "skip", tmp_path / "drafts")
    with tarfile.open(next(one.file for one in archives if one.into == "checkpoints")) as tar:
        names = sorted(Path(name).name for name in tar.getnames())
    assert names == [made.name, "latest", "manifest.json", "model"]


def test_the_agent_needs_nothing_but_what_is_sent_and_the_python_of_older_machines(tmp_path: Path) -> None:
    task = Task("t", "j", TaskKind.TRAINING, "command", "true")
    bundle = make_archives(task, tmp_path / "none", tmp_path, tmp_path / "drafts")[0]
    (tmp_path / "bundle").mkdir()
    subprocess.run(["tar", "-xf", bundle.file, "-C", tmp_path / "bundle"], check=True)
    library = tmp_path / "bundle" / "lib"
    assert [each for source in library.rglob("*.py") if "sync" not in source.parts for each in too_young(source)] == []
    program = "import mlcd, mlcd.clouds.remote.agent.life, mlcd.clouds.remote.agent.relay; print(mlcd.__file__)"
    python = str(Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}")
    bare = [python, "-S", "-c", program]  # without installed packages
    done = subprocess.run(bare, env={"PYTHONPATH": str(library)}, capture_output=True, text=True, check=False)
    assert done.stdout.startswith(str(library)), done.stderr
