"""What a task on machines elsewhere goes through: nodes, secrets, kills, losses, checkpoints, reuse."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psutil
import pytest

from loopback_machines import OFFER, Door, LoopbackCloud, power_off
from mlcd.clouds.checkpoints import newest_complete, samples_of
from mlcd.clouds.remote.agent.environment import _path
from mlcd.clouds.remote.delivery import LARGE_BYTES
from mlcd.clouds.remote.files import task_files
from mlcd.core.machines import Deployment
from mlcd.core.task import Handle, Task, TaskFolder, TaskKind, TaskState, TaskStatus

pytestmark = pytest.mark.slow


class Rented:
    """The loopback cloud with small tasks on it."""

    def __init__(self, home: Path, door: Door, **options: Any) -> None:
        self.home = home
        self.cloud = LoopbackCloud(home, {**door.options, **options})

    def task(self, run: str, number: int = 1, **changes: Any) -> Task:
        folder = self.home / "jobs" / f"task-{number}"
        task = Task(f"task-{number}", "job", TaskKind.TRAINING, "command", run, folder=str(folder))
        return replace(task, checkpoints=str(self.home / "checkpoints"), grace_seconds=2.0, **changes)

    def launch(self, task: Task, nodes: int = 1, **secrets: str) -> Handle:
        return self.cloud.launch(task, Deployment(OFFER, nodes), secrets)

    def wait(
        self, handle: Handle, condition: Callable[[TaskStatus], bool] = lambda status: status.state.ended
    ) -> TaskStatus:
        deadline = time.monotonic() + 90
        while not condition(status := self.cloud.status(handle)):
            assert not status.state.ended, f"waited in vain, it has ended: {status}"
            assert time.monotonic() < deadline, f"waited in vain: {status}"
            time.sleep(0.05)
        return status

    def running(self, handle: Handle) -> TaskStatus:
        return self.wait(handle, lambda status: status.state is TaskState.RUNNING)

    def text(self, task: Task, node: int = 0) -> str:
        return TaskFolder(Path(task.folder)).log(node).read_text()


@pytest.fixture
def rented(tmp_path: Path, door: Door) -> Iterator[Rented]:
    """A cloud with nothing on it; what a test leaves is ended."""
    yield from _renting(Rented(tmp_path, door))


@pytest.fixture
def keeping(tmp_path: Path, door: Door) -> Iterator[Rented]:
    """One whose machines wait for the next task."""
    yield from _renting(Rented(tmp_path, door, keep_seconds=30.0))


def _renting(rented: Rented) -> Iterator[Rented]:
    yield rented
    for owned in rented.cloud.owned():
        rented.cloud.stop(owned.handle)
    for base in rented.home.glob("bases/*"):
        power_off(base)


def couriers(home: Path) -> list[psutil.Process]:
    """Those at work on this home's tasks."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        line = process.info["cmdline"] or []
        if "mlcd.clouds.remote.courier" in line and any(str(home) in part for part in line):
            found.append(process)
    return found


def kill_couriers(home: Path) -> None:
    for process in couriers(home):
        process.kill()
        process.wait(10)


def test_all_nodes_are_set_up_and_told_who_they_are(rented: Rented) -> None:
    task = rented.task(
        "echo $NODE_RANK of $SKYPILOT_NUM_NODES $(cat ready) > $MLCD_OUTPUT_DIR/$NODE_RANK.txt"
    )
    task = replace(task, setup="echo prepared $NODE_RANK > ready")
    status = rented.wait(rented.launch(task, nodes=2))
    assert status.state is TaskState.SUCCEEDED, (status, rented.text(task))
    outputs = TaskFolder(Path(task.folder)).outputs
    assert (outputs / "0.txt").read_text() == "0 of 2 prepared 0\n"
    assert (outputs / "1.txt").read_text() == "1 of 2 prepared 1\n"


def test_code_mounts_and_model_files_travel(rented: Rented, tmp_path: Path) -> None:
    (tmp_path / "work" / ".git").mkdir(parents=True)
    (tmp_path / "work" / "train.sh").write_text("ls -a; sha256sum data/numbers; echo w > model.pt")
    (tmp_path / "numbers").write_bytes(os.urandom(LARGE_BYTES + 1))
    task = rented.task(
        "bash train.sh",
        workdir=str(tmp_path / "work"),
        file_mounts={"data/numbers": str(tmp_path / "numbers")},
    )
    assert rented.wait(rented.launch(task, nodes=2)).state is TaskState.SUCCEEDED
    digest = hashlib.sha256((tmp_path / "numbers").read_bytes()).hexdigest()
    assert digest in rented.text(task)
    assert digest in rented.text(task, node=1)
    log = task_files(rented.cloud.home, task.id).log
    assert "could not fetch" not in log.read_text(), "the first machine passed it on"
    assert ".git" not in rented.text(task)
    assert (TaskFolder(Path(task.folder)).outputs / "model.pt").read_text() == "w\n"


def test_a_failing_setup_is_told_with_its_log(rented: Rented) -> None:
    task = rented.task("true", setup="echo cannot; exit 7")
    status = rented.wait(rented.launch(task))
    assert (status.state, status.exit_code) == (TaskState.FAILED, 7)
    assert "setup" in status.reason
    assert "cannot" in status.log_tail


def test_secrets_reach_the_program_and_stay_on_no_disk(rented: Rented) -> None:
    secret = "hush-4711"
    task = rented.task('[ "$TOKEN" = "hush-${TAIL}" ] && echo known; sleep 100', envs={"TAIL": "4711"})
    handle = rented.launch(task, TOKEN=secret)
    rented.wait(handle, lambda status: "known" in status.log_tail)
    files = [path for path in rented.home.rglob("*") if path.is_file()]
    assert not [path for path in files if secret.encode() in path.read_bytes()]
    rented.cloud.stop(handle)
    rented.wait(handle)


def test_a_courier_killed_again_and_again_rents_once_and_loses_nothing(rented: Rented) -> None:
    task = rented.task(
        "for i in $(seq 40); do echo step $i; sleep 0.2; done; echo w > $MLCD_OUTPUT_DIR/model"
    )
    handle = rented.launch(task, nodes=2)
    for number in range(10):
        time.sleep(0.15 * number)
        kill_couriers(rented.home)
        status = rented.cloud.status(handle)
    status = rented.wait(handle)
    assert status.state is TaskState.SUCCEEDED, status
    assert rented.text(task).splitlines() == [f"step {i}" for i in range(1, 41)]
    assert sorted(rented.cloud.calls()) == ["release m-1", "release m-2", "rent m-1", "rent m-2"]
    assert list(rented.cloud.owned()) == []


def test_what_is_stopped_while_its_courier_is_dead_saves_comes_home_and_is_given_back(
    rented: Rented, tmp_path: Path
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "train.py").write_text(_STEPS)
    task = rented.task("python3 train.py", workdir=str(tmp_path / "work"))
    handle = rented.launch(task)
    rented.wait(handle, lambda status: status.progress.steps > 2)
    kill_couriers(rented.home)
    rented.cloud.stop(handle)
    status = rented.wait(handle)
    assert (status.state, status.reason) == (TaskState.STOPPED, "stopped")
    assert newest_complete(Path(task.checkpoints)) is not None
    assert rented.cloud.calls() == ["rent m-1", "release m-1"]


def test_a_model_that_cannot_come_home_at_once_is_tried_again(rented: Rented) -> None:
    task = rented.task("echo done; echo w > $MLCD_OUTPUT_DIR/model")
    in_the_way = TaskFolder(Path(task.folder)).outputs.parent / ".bringing"
    in_the_way.mkdir(parents=True)
    handle = rented.launch(task)
    rented.wait(handle, lambda status: "done" in status.log_tail)
    time.sleep(3.0)
    assert list(rented.cloud.owned()) != []
    shutil.rmtree(in_the_way)
    assert rented.wait(handle).state is TaskState.SUCCEEDED
    assert (TaskFolder(Path(task.folder)).outputs / "model").read_text() == "w\n"
    assert list(rented.cloud.owned()) == []


def test_what_a_task_that_is_over_left_behind_can_still_be_ended(keeping: Rented) -> None:
    probe = replace(keeping.task("true"), kind=TaskKind.PROBE)
    handle = keeping.launch(probe)
    keeping.wait(handle)
    kill_couriers(keeping.home)  # nobody minds the machine that waits
    assert [owned.task_id for owned in keeping.cloud.owned()] == ["task-1"]
    keeping.cloud.stop(handle)
    assert list(keeping.cloud.owned()) == []


def test_a_machine_that_is_gone_is_noticed(rented: Rented) -> None:
    handle = rented.launch(rented.task("sleep 1000"), nodes=2)
    rented.running(handle)
    lost = rented.cloud.machines().owned()[1]
    rented.cloud.machines().release([lost])
    status = rented.wait(handle)
    assert status.state is TaskState.LOST
    assert "node 1" in status.reason
    assert list(rented.cloud.owned()) == []


def test_a_machine_that_stands_still_is_lost(rented: Rented) -> None:
    handle = rented.launch(rented.task("sleep 1000"), nodes=1)
    rented.running(handle)
    agents = [p for p in psutil.process_iter(["cmdline"]) if _is_agent(p, rented.home)]
    for agent in agents:
        os.kill(agent.pid, signal.SIGSTOP)
    try:
        status = rented.wait(handle)
        assert (status.state, status.reason) == (TaskState.LOST, "node 0 does not answer")
    finally:
        for agent in agents:
            agent.kill()


def _is_agent(process: psutil.Process, home: Path) -> bool:
    line = process.info["cmdline"] or []
    return "mlcd.clouds.remote.agent" in line and str(home) in line[-1]


def test_checkpoints_of_the_worker_come_home_and_go_out_again(rented: Rented, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "train.py").write_text(_SAVES)
    first = rented.task("python3 train.py", workdir=str(tmp_path / "work"))
    assert rented.wait(rented.launch(first)).state is TaskState.SUCCEEDED, rented.text(first)
    newest = newest_complete(Path(first.checkpoints))
    assert newest is not None
    assert (newest / "state").read_text() == "1"
    second = replace(rented.task("python3 train.py", number=2), workdir=first.workdir)
    assert rented.wait(rented.launch(second)).state is TaskState.SUCCEEDED
    newest = newest_complete(Path(first.checkpoints))
    assert newest is not None
    assert (newest / "state").read_text() == "2"


_SAVES = """
import mlcd
last = mlcd.last_checkpoint()
count = int((last / "state").read_text()) if last else 0
for _ in mlcd.steps(range(3)):
    pass
with mlcd.checkpoint() as folder:
    (folder / "state").write_text(str(count + 1))
"""


def test_what_a_program_saves_by_itself_is_committed_and_put_back(rented: Rented) -> None:
    save = "cat kept/state; echo step=8; mkdir -p kept; echo eight > kept/state; sleep 2.5"
    task = rented.task(save, checkpoint_path="kept")
    task = replace(task, progress=replace(task.progress, pattern=r"step=(?P<samples>\\d+)"))
    assert rented.wait(rented.launch(task)).state is TaskState.SUCCEEDED
    newest = newest_complete(Path(task.checkpoints))
    assert newest is not None
    assert (newest / "state").read_text() == "eight\n"
    assert samples_of(newest) in (0.0, 8.0)
    again = rented.task("cat kept/state", number=2, checkpoint_path="kept")
    rented.wait(rented.launch(again))
    assert rented.text(again) == "eight\n"


def test_machines_of_a_probe_wait_for_the_next_one(keeping: Rented) -> None:
    first = replace(keeping.task("true"), kind=TaskKind.PROBE)
    keeping.wait(keeping.launch(first, nodes=2))
    second = replace(keeping.task("true", number=2), kind=TaskKind.TRAINING)
    assert keeping.wait(keeping.launch(second, nodes=3)).state is TaskState.SUCCEEDED
    assert [call for call in keeping.cloud.calls() if call.startswith("rent")] == [
        "rent m-1",
        "rent m-2",
        "rent m-3",
    ]
    assert list(keeping.cloud.owned()) == []


def test_a_notice_ends_the_program_with_its_checkpoint(tmp_path: Path, door: Door) -> None:
    with _metadata() as (url, notice):
        rented = Rented(tmp_path, door, notice_url=url)
        (tmp_path / "work").mkdir()
        (tmp_path / "work" / "train.py").write_text(_STEPS)
        task = rented.task("python3 train.py", workdir=str(tmp_path / "work"))
        spot = Deployment(replace(OFFER, spot=True), 1)
        handle = rented.cloud.launch(task, spot, {})
        rented.wait(handle, lambda status: status.progress.steps > 2)
        notice.set()
        status = rented.wait(handle)
        assert status.state is TaskState.LOST
        assert "spot notice" in status.reason
        assert newest_complete(Path(task.checkpoints)) is not None


_STEPS = """
import time, mlcd
for _ in mlcd.steps(range(10000)):
    time.sleep(0.05)
with mlcd.checkpoint() as folder:
    (folder / "state").write_text("saved")
"""


class _metadata:  # noqa: N801  # used as a context
    """A metadata service that gives notice when it is told to."""

    def __enter__(self) -> tuple[str, threading.Event]:
        notice = threading.Event()

        class Handler(BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                self._answer(200, b"token")

            def do_GET(self) -> None:
                given = notice.is_set()
                self._answer(200 if given else 404, b'{"action": "terminate", "time": ""}' if given else b"")

            def _answer(self, code: int, body: bytes) -> None:
                self.send_response(code)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{self._server.server_port}", notice

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def test_a_program_nobody_hears_of_ends_with_its_lease(tmp_path: Path, door: Door) -> None:
    rented = Rented(tmp_path, door, lease_seconds=25.0)
    handle = rented.launch(rented.task("echo pid $$; exec sleep 1000"))
    tail = rented.wait(handle, lambda status: "pid" in status.log_tail).log_tail
    kill_couriers(rented.home)
    pid = int(tail.split()[1])
    deadline = time.monotonic() + 90
    while psutil.pid_exists(pid):
        assert time.monotonic() < deadline, "it went on without a lease"
        time.sleep(0.1)
    assert rented.wait(handle).state is TaskState.LOST


def test_python_is_found_where_a_machine_knows_only_python3(tmp_path: Path) -> None:
    path = _path(tmp_path, "", str(tmp_path / "nothing-here"))
    found = shutil.which("python", path=path)
    assert found is not None
    assert Path(found).resolve() == Path(sys.executable).resolve()
    assert _path(tmp_path, str(tmp_path / "bin"), "/usr/bin") == f"{tmp_path / 'bin'}:/usr/bin", (
        "which has one"
    )
