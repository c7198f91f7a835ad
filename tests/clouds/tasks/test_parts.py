"""The parts of the local cloud that decide: outputs, working copies, diagnosis, environment."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from mlcd.clouds.local.files import State, TaskFiles
from mlcd.clouds.remote.files import TaskFiles as RemoteFiles
from mlcd.clouds.tasks import outputs
from mlcd.clouds.tasks.copies import copy_workdir, mount
from mlcd.clouds.tasks.diagnosis import diagnose, log_tail
from mlcd.clouds.tasks.environment import node_environment
from mlcd.clouds.tasks.outputs import MODEL_FILES, collect_outputs, matches
from mlcd.clouds.tasks.processes import (
    MARKER,
    ProcessInfo,
    _is_ending,
    alive,
    birth,
    command_line,
    family,
    marked,
    started_seconds,
)
from mlcd.core.task import EndCause, TaskState
from mlcd.errors import CloudError
from mlcd_functions.files import TaskFiles as FunctionFiles


@pytest.mark.parametrize(
    ("name", "patterns", "expected"),
    [
        ("model.pt", MODEL_FILES, True),
        ("runs/7/model.safetensors", MODEL_FILES, True),
        ("notes.txt", MODEL_FILES, False),
        ("out/a.bin", ("out",), True),
        ("out/a.bin", ("./out/",), True),
        ("outer/a.bin", ("out",), False),
        ("deep/er/a.bin", ("deep/*.bin",), True),
        ("a.bin", ("deep/*.bin",), False),
    ],
)
def test_outputs_are_found_by_pattern_or_folder(name: str, patterns: tuple[str, ...], expected: bool) -> None:
    assert matches(name, patterns) is expected


def test_a_copy_shares_no_file_with_the_original(tmp_path: Path) -> None:
    source, copy = tmp_path / "source", tmp_path / "copy"
    source.mkdir()
    copy.mkdir()
    (source / "data.txt").write_text("original")
    (source / "link").symlink_to("data.txt")
    (source / "outside").symlink_to(tmp_path)
    assert copy_workdir(source, copy, skip=copy, check=lambda: None) == len("original")
    (copy / "data.txt").write_text("changed")
    assert (source / "data.txt").read_text() == "original"
    assert (copy / "link").read_text() == "changed"
    assert (copy / "outside").resolve() == tmp_path


def test_a_workdir_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CloudError, match="nowhere is not a folder"):
        copy_workdir(tmp_path / "nowhere", tmp_path, skip=tmp_path, check=lambda: None)


@pytest.mark.parametrize(
    ("target", "source", "message"),
    [
        ("/data", ".", "outside the working copy"),
        ("../up", ".", "outside"),
        ("x", "s3://bucket", "not on this computer"),
    ],
)
def test_mounts_that_cannot_be_are_refused(tmp_path: Path, target: str, source: str, message: str) -> None:
    (tmp_path / "copy").mkdir()
    with pytest.raises(CloudError, match=message):
        mount({target: source}, tmp_path, tmp_path / "copy", check=lambda: None)


def test_a_large_mount_is_linked(tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    with (tmp_path / "large.bin").open("wb") as file:
        file.truncate(2**29)
    assert mount({"large.bin": "large.bin"}, tmp_path, tmp_path / "copy", check=lambda: None) == ["large.bin"]
    assert (tmp_path / "copy" / "large.bin").is_symlink()


@pytest.mark.parametrize(
    ("code", "log", "kernel_killed", "state", "reason"),
    [
        (3, "oh no", False, TaskState.FAILED, "the program ended with exit code 3 on node 0"),
        (-11, "", False, TaskState.FAILED, "the program ended with SIGSEGV (exit code 139) on node 0"),
        (-9, "", False, TaskState.LOST, "node 0 was killed from outside"),
        (137, "", True, TaskState.FAILED, "out of memory"),
        (-9, "", None, TaskState.FAILED, "out of memory"),
        (1, "RuntimeError: can't allocate memory", False, TaskState.FAILED, "out of memory"),
        (
            1,
            "OSError: [Errno 28] No space left on device",
            False,
            TaskState.FAILED,
            "no space left on the disk",
        ),
    ],
)
def test_an_end_is_told_in_words(
    tmp_path: Path, code: int, log: str, kernel_killed: bool | None, state: TaskState, reason: str
) -> None:
    (tmp_path / "log").write_text(log)
    ending = diagnose(code, 0, tmp_path / "log", "the program", kernel_killed)
    assert (ending.state, ending.reason) == (state, reason)


@pytest.mark.parametrize(
    "told",
    [
        "RuntimeError: No CUDA GPUs are available",
        "RuntimeError: No HIP GPUs are available",
        "AssertionError: Torch not compiled with CUDA enabled",
        "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU",
        "RuntimeError: Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False.",
        "lightning_fabric.utilities.exceptions.MisconfigurationException: No supported gpu backend found!",
        "MisconfigurationException: `CUDAAccelerator` can not run on your system since the accelerator is not available.",
        "ValueError: Your setup doesn't support bf16/gpu. You need to assign use_cpu if you want to train on CPU.",
        "RuntimeError: ProcessGroupNCCL is only supported with GPUs, no GPUs found!",
        "RuntimeError: Unknown backend: 'gpu' requested, but no platforms that are instances of gpu are present.",
        "cupy_backends.cuda.api.runtime.CUDARuntimeError: cudaErrorNoDevice: no CUDA-capable device is detected",
    ],
)
def test_a_program_that_needs_a_gpu_is_known_by_what_frameworks_say(tmp_path: Path, told: str) -> None:
    (tmp_path / "log").write_text(f"Traceback (most recent call last):\n{told}\n")
    ending = diagnose(1, 0, tmp_path / "log", "the program", False)
    assert ending.cause is EndCause.NO_GPU
    assert ending.reason == "the program needs a GPU and found none on node 0"


def test_the_end_of_a_long_log_is_read_without_the_rest(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("".join(f"line {number}\n" for number in range(100_000)))
    assert log_tail(tmp_path / "log", lines=2) == "line 99998\nline 99999"
    assert log_tail(tmp_path / "missing") == ""
    os.mkfifo(tmp_path / "pipe")
    assert log_tail(tmp_path / "pipe") == "", "nobody waits for a program that puts a pipe in its place"


def test_the_module_path_of_the_program_comes_after_the_workers() -> None:
    folders = dict.fromkeys(("copy", "progress", "checkpoints", "outputs"), Path("/somewhere"))
    around = {"PYTHONPATH": "the user's", "A": "1", "OMP_WAIT_POLICY": "ACTIVE"}
    env = node_environment(around, {"A": "2"}, ["the worker's", ""], **folders)
    assert (env["PYTHONPATH"], env["A"]) == ("the worker's:the user's", "2")
    assert (env["OMP_WAIT_POLICY"], env["KMP_BLOCKTIME"]) == ("ACTIVE", "0"), "who asks for it may spin"
    assert node_environment({}, {"PYTHONPATH": "its own"}, ["w"], **folders)["PYTHONPATH"] == "w:its own"
    assert env["MLCD_WORKDIR"] == "/somewhere"


def test_a_reused_pid_is_not_mistaken_for_the_process_before() -> None:
    assert alive(1, birth(1))
    assert not alive(1, "another boot/5")
    assert not alive(2**22 + 1, birth(1))
    assert birth(2**22 + 1) == ""


def test_a_process_that_was_just_killed_is_dead_though_it_is_still_listed() -> None:
    for _ in range(10):
        hog = subprocess.Popen(
            [sys.executable, "-c", "data = bytearray(300_000_000); print(flush=True); input()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert hog.stdout is not None
        hog.stdout.readline()
        born, began = birth(hog.pid), started_seconds(hog.pid)
        assert alive(hog.pid, born)
        assert began is not None
        os.kill(hog.pid, signal.SIGKILL)  # it takes the kernel a moment to take the memory back
        until = time.monotonic() + 10.0  # a processor that has no time for it yet may leave it as it was
        while alive(hog.pid, born) or started_seconds(hog.pid):
            assert time.monotonic() < until
        hog.communicate()


@pytest.mark.parametrize(
    ("state", "flags", "signals", "ends"),
    [
        ("S", 0x400000, 0, False),
        ("Z", 0x400000, 0, True),
        ("D", 0x400004, 0, True),
        ("R", 0x400000, 1 << 8, True),
    ],
)
def test_a_process_that_exits_or_has_a_sigkill_before_it_runs_no_line_more(
    state: str, flags: int, signals: int, ends: bool
) -> None:
    fields = ["0"] * 50
    fields[0], fields[6], fields[28] = state, str(flags), str(signals)
    assert _is_ending(fields) is ends


def test_a_family_is_its_sessions_and_all_descendants() -> None:
    everyone = [
        ProcessInfo(pid, parent, session, 0.0, 0)
        for pid, parent, session in [(1, 0, 1), (5, 1, 5), (6, 5, 5), (7, 6, 7), (8, 1, 5), (9, 1, 9)]
    ]
    assert {process.pid for process in family({5}, everyone)} == {5, 6, 7, 8}


@pytest.mark.parametrize("task_id", ["plain", "../up", "a/b", "..", "", "ü %"])
def test_any_task_id_has_a_folder_of_its_own(tmp_path: Path, task_id: str) -> None:
    files = TaskFiles.of(tmp_path, task_id)
    assert files.root.parent == tmp_path / "tasks"
    assert files.id == task_id or task_id == ""


def test_a_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    files = TaskFiles.of(tmp_path, "one")
    files.root.mkdir(parents=True)
    assert files.read_state() is None
    files.write_state(State(pid=7, birth="x", state=TaskState.RUNNING, exit_codes=(None, 0)))
    state = files.read_state()
    assert state is not None
    assert (state.pid, state.state, state.exit_codes) == (7, TaskState.RUNNING, (None, 0))
    assert state.seen_at > 0


def test_outputs_that_lead_out_of_the_working_copy_are_not_handed_back(tmp_path: Path) -> None:
    copy, into = tmp_path / "copy", tmp_path / "outputs"
    copy.mkdir()
    into.mkdir()
    (tmp_path / "key").write_text("secret")
    (copy / "key.pt").symlink_to(tmp_path / "key")
    (copy / "zero.pt").symlink_to("/dev/zero")
    (copy / "model.pt").write_text("weights")
    (copy / "latest.pt").symlink_to("model.pt")
    os.mkfifo(copy / "pipe.pt")
    said: list[str] = []
    collect_outputs(copy, {}, (), into, said.append)
    assert {path.name: path.read_text() for path in into.iterdir()} == {
        "model.pt": "weights",
        "latest.pt": "weights",
    }
    assert not any(path.is_symlink() for path in into.iterdir())
    assert "leads out of the working copy" in said[0]


def test_links_among_the_outputs_are_not_written_through(tmp_path: Path) -> None:
    copy, into, elsewhere = tmp_path / "copy", tmp_path / "outputs", tmp_path / "elsewhere"
    for folder in (copy / "best", into, elsewhere):
        folder.mkdir(parents=True)
    (copy / "best" / "model.pt").write_text("weights")
    (into / "best").symlink_to(elsewhere)
    collect_outputs(copy, {}, ("best/",), into, lambda _: None)
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("link", ["a.pt", "z.pt"])
def test_a_link_is_handed_back_as_what_it_means_whatever_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, link: str
) -> None:
    copy, into = tmp_path / "copy", tmp_path / "outputs"
    copy.mkdir()
    into.mkdir()
    (copy / "model.pt").write_text("weights")
    (copy / link).symlink_to("model.pt")
    monkeypatch.setattr(outputs, "signatures", lambda _: dict.fromkeys(sorted((link, "model.pt")), (1, 1)))
    collect_outputs(copy, {}, (), into, lambda _: None)
    assert {path.name: path.read_text() for path in into.iterdir()} == {
        "model.pt": "weights",
        link: "weights",
    }


def test_what_an_older_mlcd_wrote_of_a_task_is_read(tmp_path: Path) -> None:
    remote = RemoteFiles.of(tmp_path, "one")
    remote.root.mkdir(parents=True)
    old = {
        "state": "failed",
        "refused": "",
        "couriers": 2,
        "kept": ["m-1"],
        "kept_until": 9.0,
        "outcome": None,
    }
    (remote.root / "state.json").write_text(json.dumps(old))
    state = remote.read_state()
    assert state is not None
    assert (state.refused, state.runners, state.warm, state.warm_until) == (None, 2, ("m-1",), 9.0)


def test_the_functions_of_an_older_mlcd_are_not_forgotten(tmp_path: Path) -> None:
    files = FunctionFiles.of(tmp_path, "one")
    files.root.mkdir(parents=True)
    stint = {"rank": 0, "invocation": "i1", "generation": 1, "invoked_at": 1.0, "heard_at": 2.0}
    (files.root / "state.json").write_text(json.dumps({"pid": 1, "birth": "b", "stints": [stint], "vain": 1}))
    state = files.read_state()
    assert state is not None
    assert (state.latest[0].invocation_id, state.latest[0].reported_at, state.fruitless) == ("i1", 2.0, 1)
    files.write_state(state)
    assert files.read_state() == replace(state, seen_at=files.read_state().seen_at)  # type: ignore[union-attr]


def test_a_process_that_has_just_been_started_is_known_by_its_task(tmp_path: Path) -> None:
    """The kernel lays its environment out only after whoever started it was told that it runs."""
    for _ in range(100):
        started = subprocess.Popen(["sleep", "600"], env={**os.environ, MARKER: str(tmp_path)})
        try:
            assert command_line(started.pid) == ["sleep", "600"]
            assert marked(tmp_path) == [started.pid]
        finally:
            started.kill()
            started.wait()


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root and setpriv")
def test_a_process_that_may_not_be_traced_is_not_waited_for(tmp_path: Path) -> None:
    """As in a container or a pod that sees the host's processes: root there has fewer rights than theirs have."""
    look = (
        "import sys, time; from pathlib import Path; from mlcd.clouds.tasks import processes; "
        "processes._EXEC_SECONDS = 60.0; began = time.monotonic(); found = processes.marked(Path(sys.argv[1])); "
        "print(found, time.monotonic() - began < 30.0)"
    )
    fewer_rights = ["setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace"]
    looked = subprocess.run([*fewer_rights, sys.executable, "-c", look, str(tmp_path)], capture_output=True, text=True)
    assert looked.stdout.split("\n")[0] == "[] True", looked.stderr
