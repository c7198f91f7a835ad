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
from contextlib import suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psutil
import pytest

from emulated import wait_for
from loopback_machines import OFFER, Door, LoopbackCloud, power_off
from mlcd.clouds.checkpoints import newest_complete, samples_of
from mlcd.clouds.remote.agent.environment import _path
from mlcd.clouds.remote.files import State, TaskFiles
from mlcd.clouds.remote.upload import LARGE_BYTES
from mlcd.core.machines import Deployment
from mlcd.core.task import EndCause, Handle, Refusal, Task, TaskFolder, TaskKind, TaskState, TaskStatus
from mlcd.worker.checkpoints import complete_checkpoints

pytestmark = pytest.mark.slow

PATIENCE_SECONDS = 300.0  # on a busy computer; a test as a whole has 600 s


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
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not condition(status := self.cloud.status(handle)):
            assert not status.state.ended, f"it ended before what was awaited: {status}"
            assert time.monotonic() < deadline, f"did not come in time: {status}"
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


def runners(home: Path) -> list[psutil.Process]:
    """Those at work on this home's tasks."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        line = process.info["cmdline"] or []
        if "mlcd.clouds.tasks.runner" in line and any(str(home) in part for part in line):
            found.append(process)
    return found


def agents(home: Path) -> list[psutil.Process]:
    """Those that look after a node of this home's tasks."""
    return [process for process in psutil.process_iter(["cmdline"]) if _is_agent(process, home)]


def kill_runners(home: Path) -> None:
    for process in runners(home):
        with suppress(psutil.NoSuchProcess):  # it may end by itself
            process.kill()
        process.wait(10)


def test_all_nodes_are_set_up_and_told_who_they_are(rented: Rented) -> None:
    task = rented.task("echo $NODE_RANK of $SKYPILOT_NUM_NODES $(cat ready) > $MLCD_OUTPUT_DIR/$NODE_RANK.txt")
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
    log = TaskFiles.of(rented.cloud.home, task.id).log
    assert "could not fetch" not in log.read_text(), "the first machine passed it on"
    assert ".git" not in rented.text(task)
    assert (TaskFolder(Path(task.folder)).outputs / "model.pt").read_text() == "w\n"


def test_a_failing_setup_is_told_with_its_log(rented: Rented) -> None:
    task = rented.task("true", setup="echo cannot; exit 7")
    status = rented.wait(rented.launch(task))
    assert (status.state, status.exit_code) == (TaskState.FAILED, 7)
    assert "setup" in status.reason
    assert "cannot" in status.log_tail


def test_what_keeps_a_program_from_starting_is_no_fault_of_it_and_on_the_bill(rented: Rented, tmp_path: Path) -> None:
    task = rented.task("echo never", file_mounts={"data": str(tmp_path / "gone")})
    status = rented.wait(rented.launch(task))
    assert (status.state, status.refused) == (TaskState.FAILED, Refusal.USER)
    assert "there is no" in status.reason
    assert status.hint == "Fix `file_mounts` in the job."
    assert status.usd > 0
    assert list(rented.cloud.owned()) == []


def test_secrets_reach_the_program_and_stay_on_no_disk(rented: Rented) -> None:
    secret = "hush-4711"
    task = rented.task('[ "$TOKEN" = "hush-${TAIL}" ] && echo known; sleep 100', envs={"TAIL": "4711"})
    handle = rented.launch(task, TOKEN=secret)
    rented.wait(handle, lambda status: "known" in status.log_tail)
    files = [path for path in rented.home.rglob("*") if path.is_file()]
    assert not [path for path in files if secret.encode() in path.read_bytes()]
    rented.cloud.stop(handle)
    rented.wait(handle)


def test_all_nodes_know_the_tasks_secret_though_its_runner_was_killed(rented: Rented) -> None:
    task = rented.task('echo "it is $MLCD_TASK_SECRET"; sleep 2')
    handle = rented.launch(task, nodes=2)
    kill_runners(rented.home)
    assert rented.wait(handle).state is TaskState.SUCCEEDED
    (told,) = {line for node in range(2) for line in rented.text(task, node).splitlines() if line.startswith("it is ")}
    assert len(told.removeprefix("it is ")) == 32


def test_a_runner_killed_again_and_again_rents_once_and_loses_nothing(rented: Rented) -> None:
    task = rented.task("for i in $(seq 40); do echo step $i; sleep 0.2; done; echo w > $MLCD_OUTPUT_DIR/model")
    handle = rented.launch(task, nodes=2)
    for number in range(10):
        time.sleep(0.15 * number)
        kill_runners(rented.home)
        status = rented.cloud.status(handle)
    status = rented.wait(handle)
    assert status.state is TaskState.SUCCEEDED, status
    assert rented.text(task).splitlines() == [f"step {i}" for i in range(1, 41)]
    assert sorted(rented.cloud.calls()) == ["release m-1", "release m-2", "rent m-1", "rent m-2"]
    assert list(rented.cloud.owned()) == []


def test_what_is_stopped_while_its_runner_is_dead_saves_comes_home_and_is_given_back(
    rented: Rented, tmp_path: Path
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "train.py").write_text(_STEPS)
    task = rented.task("python3 train.py", workdir=str(tmp_path / "work"))
    handle = rented.launch(task)
    rented.wait(handle, lambda status: status.progress.steps > 2)
    kill_runners(rented.home)
    rented.cloud.stop(handle)
    status = rented.wait(handle)
    assert (status.state, status.reason) == (TaskState.STOPPED, "stopped")
    assert newest_complete(Path(task.checkpoints)) is not None
    assert rented.cloud.calls() == ["rent m-1", "release m-1"]


def test_a_model_that_cannot_come_home_at_once_is_tried_again(rented: Rented) -> None:
    task = rented.task("echo done; echo w > $MLCD_OUTPUT_DIR/model")
    in_the_way = TaskFolder(Path(task.folder)).outputs.parent / ".download"
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
    kill_runners(keeping.home)  # nobody minds the machine that waits
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
    stopped = agents(rented.home)
    for agent in stopped:
        os.kill(agent.pid, signal.SIGSTOP)
    try:
        status = rented.wait(handle)
        assert (status.state, status.reason) == (TaskState.LOST, "node 0 does not answer")
    finally:
        for agent in stopped:
            agent.kill()


@pytest.mark.parametrize("code", [0, 1])
def test_a_machine_whose_processes_are_all_told_to_end_is_taken_however_its_program_ends(
    rented: Rented, code: int
) -> None:
    task = rented.task(f"trap 'echo saved; exit {code}' TERM; echo working; while true; do sleep 0.05; done")
    handle = rented.launch(task)
    rented.wait(handle, lambda status: "working" in status.log_tail)
    (agent,) = agents(rented.home)
    for each in [agent, *agent.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):  # the program's sleeps come and go
            each.terminate()
    status = rented.wait(handle)
    assert (status.state, status.cause) == (TaskState.LOST, EndCause.SPOT_NOTICE), status
    assert "saved" in rented.text(task)


def test_an_agent_whose_program_is_over_ends_when_its_machine_is_told_to_go(rented: Rented, tmp_path: Path) -> None:
    """A machine that is shut down would wait for it, and be paid."""
    handle = rented.launch(rented.task(f"until [ -e {tmp_path}/over ]; do sleep 0.1; done"))
    rented.running(handle)
    kill_runners(rented.home)  # nobody else looks after the machine
    (agent,) = agents(rented.home)
    (tmp_path / "over").touch()
    (state,) = tmp_path.glob("bases/**/state.json")
    wait_for(lambda: '"ended"' in state.read_text(), "the agent to tell that the program is over")
    agent.terminate()
    agent.wait(30)


def test_a_program_that_fails_because_another_nodes_agent_died_is_not_blamed(rented: Rented, tmp_path: Path) -> None:
    run = f"[ $NODE_RANK = 1 ] && exec sleep 1000; until [ -e {tmp_path}/gone ]; do sleep 0.1; done; exit 1"
    handle = rented.launch(rented.task(run), nodes=2)
    rented.running(handle)
    for agent in psutil.process_iter(["cmdline"]):
        if _is_agent(agent, tmp_path / "bases" / "m-2"):
            agent.kill()
    (tmp_path / "gone").touch()
    status = rented.wait(handle)
    assert (status.state, status.reason) == (TaskState.LOST, "node 1 does not answer")


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
    assert rented.text(again) == f"[mlcd] going on from checkpoint {newest.name}\neight\n"


def test_what_a_program_has_opened_and_not_yet_written_is_not_committed(rented: Rented) -> None:
    save = "mkdir kept; exec 3> kept/weights; sleep 3; echo weights >&3; exec 3>&-; sleep 3"
    task = rented.task(save, checkpoint_path="kept")
    assert rented.wait(rented.launch(task)).state is TaskState.SUCCEEDED, rented.text(task)
    found = complete_checkpoints(Path(task.checkpoints))
    assert [(one.path / "weights").read_text() for one in found] == ["weights\n"]


def test_what_a_program_saves_by_itself_gets_the_count_at_its_save(rented: Rented, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "train.py").write_text(_SAVES_BY_ITSELF)
    task = rented.task("python3 train.py", workdir=str(tmp_path / "work"), checkpoint_path="kept")
    task = replace(task, samples_before=1000.0)
    status = rented.wait(rented.launch(task))
    assert status.state is TaskState.SUCCEEDED, rented.text(task)
    found = complete_checkpoints(Path(task.checkpoints))
    assert found
    assert [one.facts.samples for one in found] == [1000.0 + float((one.path / "state").read_text()) for one in found]
    assert status.progress.samples == 1500


_SAVES_BY_ITSELF = """
import os, pathlib, time
import mlcd
for number, batch in enumerate(mlcd.steps([[0] * 10] * 150)):
    time.sleep(0.01)
    if number % 50 == 37:
        os.makedirs("kept", exist_ok=True)
        pathlib.Path("kept/draft").write_text(str(10 * (number + 1)))
        os.replace("kept/draft", "kept/state")
        time.sleep(0.3)
time.sleep(2.5)
"""


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


def test_a_machine_that_is_taken_over_has_its_lease_renewed_before_others_are_rented(
    tmp_path: Path, door: Door
) -> None:
    gate = tmp_path / "gate"
    rented = Rented(tmp_path, door, keep_seconds=600.0, lease_seconds=3000.0, rent_gate=str(gate))
    probe = replace(rented.task("true"), kind=TaskKind.PROBE)
    rented.wait(rented.launch(probe))
    kept = lease_of(rented, "m-1")
    gate.touch()
    handle = rented.launch(rented.task("true", number=2), nodes=2)
    wait_until(lambda: lease_of(rented, "m-1") > kept + 600.0, "the lease of the machine that was kept")
    gate.unlink()
    status = rented.wait(handle)
    kill_runners(tmp_path)  # that of the probe would watch over the machine for as long as it was to be kept
    assert status.state is TaskState.SUCCEEDED
    assert [call for call in rented.cloud.calls() if call.startswith("rent")] == ["rent m-1", "rent m-2"]


def test_a_machine_that_cannot_be_taken_over_is_given_back_and_another_is_rented(keeping: Rented) -> None:
    probe = replace(keeping.task("true"), kind=TaskKind.PROBE)
    keeping.wait(keeping.launch(probe))
    shutil.rmtree(keeping.home / "bases" / "m-1")  # its lease cannot be renewed
    handle = keeping.launch(keeping.task("true", number=2))
    assert keeping.wait(handle).state is TaskState.SUCCEEDED
    assert keeping.cloud.calls() == ["rent m-1", "release m-1"] * 2


def test_a_machine_that_a_later_task_keeps_is_not_ended_by_the_task_that_kept_it_first(
    tmp_path: Path, door: Door
) -> None:
    shortly, longer = (Rented(tmp_path, door, keep_seconds=seconds) for seconds in (15.0, 300.0))
    first = replace(shortly.task("true"), kind=TaskKind.PROBE)
    shortly.wait(shortly.launch(first))
    (minding,) = runners(tmp_path)
    second = replace(longer.task("true", number=2), kind=TaskKind.PROBE)
    handle = longer.launch(second)
    longer.wait(handle)
    minding.wait(90)  # it gives back what it kept and nobody took
    assert longer.cloud.calls() == ["rent m-1"]
    assert [owned.task_id for owned in longer.cloud.owned()] == ["task-2"]
    longer.cloud.stop(handle)
    assert longer.cloud.calls() == ["rent m-1", "release m-1"]
    kill_runners(tmp_path)


def test_what_was_offered_before_a_kill_but_not_kept_is_given_back_and_taken_by_nobody(
    keeping: Rented,
) -> None:
    handle = keeping.launch(replace(keeping.task("true"), kind=TaskKind.PROBE))
    keeping.wait(handle)
    kill_runners(keeping.home)
    files = TaskFiles.of(keeping.cloud.home, handle)
    undecided(files, keeping.cloud.home / "warm" / "job")
    assert keeping.wait(handle).state is TaskState.SUCCEEDED
    assert keeping.cloud.calls() == ["rent m-1", "release m-1"]
    assert not list((keeping.cloud.home / "warm" / "job").iterdir())


def undecided(files: TaskFiles, kept: Path) -> None:
    """Have a runner be killed when it had offered its machines, and not yet written down that it keeps them."""
    for offered in kept.iterdir():
        offered.rename(files.offered / offered.name)
    state = files.read_state()
    assert state is not None
    assert state.warm == ("m-1",)
    files.write_state(replace(state, state=TaskState.RUNNING, warm=(), warm_until=None, ended_at=None))


def test_all_nodes_meet_at_one_port_though_a_runner_is_killed_between_their_starts(tmp_path: Path, door: Door) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    rented = Rented(tmp_path, door, start_gate=str(gate))
    task = rented.task("echo $MASTER_PORT > $MLCD_OUTPUT_DIR/$NODE_RANK.txt")
    handle = rented.launch(task, nodes=2)
    wait_until(lambda: list(tmp_path.glob("bases/m-1/tasks/*/control/state.json")), "the first agent")
    kill_runners(tmp_path)
    gate.unlink()
    assert rented.wait(handle).state is TaskState.SUCCEEDED
    outputs = TaskFolder(Path(task.folder)).outputs
    assert (outputs / "0.txt").read_text() == (outputs / "1.txt").read_text()


def test_the_lease_is_renewed_while_data_is_sent(tmp_path: Path, door: Door) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    rented = Rented(tmp_path, door, lease_seconds=8.0, put_gate=str(gate))
    handle = rented.launch(rented.task("true"))
    first = wait_until(lambda: lease_of(rented, "m-1"), "the first lease")
    wait_until(lambda: lease_of(rented, "m-1") > first + 8.0, "a lease beyond the first, twice renewed")
    assert rented.cloud.status(handle).state is TaskState.STARTING
    gate.unlink()
    assert rented.wait(handle).state is TaskState.SUCCEEDED


def lease_of(rented: Rented, machine: str) -> float:
    """When the machine would end itself, as it knows; 0: it does not know yet."""
    file = rented.home / "bases" / machine / "lease"
    return float(file.read_text()) if file.exists() else 0.0


def wait_until(condition: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (found := condition()):
        assert time.monotonic() < deadline, f"{what} did not come in time"
        time.sleep(0.05)
    return found


def test_machines_that_ended_by_their_lease_cost_nothing_after_it(tmp_path: Path, door: Door) -> None:
    rented = Rented(tmp_path, door, lease_seconds=100.0)
    handle = rented.launch(rented.task("sleep 1000"))
    rented.running(handle)
    kill_runners(rented.home)  # the computer sleeps for ten hours, its machine ends by itself meanwhile
    files = TaskFiles.of(rented.cloud.home, handle)
    state = files.read_state()
    assert state is not None
    assert state.started_at is not None
    (base,) = rented.home.glob("bases/*")
    files.write_state(ten_hours_ago(state))
    (tmp_path / "books" / f"{base.name}.json").unlink()
    power_off(base)
    woken = rented.cloud.status(handle)
    assert sum(charge.seconds for charge in woken.charges) < 300.0
    ended = rented.wait(handle)
    assert ended.state is TaskState.LOST
    assert ended.ended_at is not None
    assert ended.ended_at < time.time() - 9 * 3600.0
    assert 100.0 < sum(charge.seconds for charge in ended.charges) < 300.0


def ten_hours_ago(state: State) -> State:
    """The state of a task whose runner was last awake ten hours ago."""
    ago = 36_000.0
    return replace(
        state,
        machines=tuple(replace(each, billed_from=each.billed_from - ago) for each in state.machines),
        started_at=(state.started_at or 0.0) - ago,
        setup_at=(state.setup_at or 0.0) - ago,
        running_at=(state.running_at or 0.0) - ago,
        leased_until={id_: until - ago for id_, until in state.leased_until.items()},
    )


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
    rented = Rented(tmp_path, door, lease_seconds=25.0, keep_seconds=60.0)
    handle = rented.launch(rented.task("echo pid $$; exec sleep 1000"))
    tail = rented.wait(handle, lambda status: "pid" in status.log_tail).log_tail
    kill_runners(rented.home)
    pid = int(tail.split()[1])
    deadline = time.monotonic() + PATIENCE_SECONDS
    while psutil.pid_exists(pid):
        assert time.monotonic() < deadline, "it went on without a lease"
        time.sleep(0.1)
    assert rented.wait(handle).state is TaskState.LOST
    assert rented.cloud.calls() == ["rent m-1", "release m-1"], "a machine that ends itself waits for nobody"


def test_python_is_found_where_a_machine_knows_only_python3(tmp_path: Path) -> None:
    path = _path(tmp_path, "", str(tmp_path / "nothing-here"))
    found = shutil.which("python", path=path)
    assert found is not None
    assert Path(found).resolve() == Path(sys.executable).resolve()
    assert _path(tmp_path, str(tmp_path / "bin"), "/usr/bin") == f"{tmp_path / 'bin'}:/usr/bin", "which has one"
