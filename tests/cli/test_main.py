"""The door: help, errors and crashes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from cli.fake_client import Command, FakeClient
from mlcd import __version__
from mlcd.cli.main import app
from mlcd.errors import StoreError, TaskFailedError

NAMES = [each.callback.__name__ for each in app.registered_commands if each.callback is not None]
WITHOUT_JSON = {"serve", "predict"}  # one answers by HTTP, the other writes JSON anyway
COMMANDS = [name for name in NAMES if name != "version"]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_examples_and_json(mlcd: Command, command: str) -> None:
    done = mlcd(command, "--help")
    assert done.code == 0
    assert f"mlcd {command}" in done.out.split("Examples:")[1]
    assert "--json" in done.out or command in WITHOUT_JSON
    assert max(len(line) for line in done.out.splitlines()) <= 80


def test_help_names_every_command(mlcd: Command) -> None:
    out = mlcd("--help").out
    assert all(re.search(rf"^│ {command} ", out, re.MULTILINE) for command in (*NAMES, "bench"))


def test_help_needs_nothing_heavy() -> None:
    heavy = "('pydantic', 'numpy', 'scipy', 'torch', 'sqlalchemy', 'plotly', 'ruamel')"
    code = f"import sys, mlcd.cli.main; print([m for m in {heavy} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


def test_version_is_told(mlcd: Command) -> None:
    assert mlcd("--version").out == f"{__version__}\n"
    assert mlcd("version").out == f"{__version__}\n"
    assert mlcd("version", "--json").data == {"version": __version__}


def test_python_runs_it_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "mlcd", "--version"], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, f"{__version__}\n")


def test_an_unknown_command_or_option_is_a_usage_error(mlcd: Command) -> None:
    assert mlcd("trian").code == 2
    assert mlcd("status", "--jsno").code == 2


def test_an_error_shows_no_trace_unless_asked_for(mlcd: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    client = FakeClient(error=StoreError("The database is locked.", "Try again."))
    done = mlcd("status", "j-7f3a", client=client)
    assert (done.code, done.err) == (1, "Error: The database is locked.\nTry again.\n")
    monkeypatch.setenv("MLCD_DEBUG", "1")
    assert "Traceback" in mlcd("status", "j-7f3a", client=client).err


def test_a_failed_task_shows_the_end_of_its_log(mlcd: Command) -> None:
    error = TaskFailedError("It exited with 3.", "", "last\x1b[31m words")
    done = mlcd("status", "j-7f3a", client=FakeClient(error=error))
    assert (done.code, done.err) == (100, "Error: It exited with 3.\nlast words\n")


def test_markup_in_a_message_is_text(mlcd: Command) -> None:
    done = mlcd("status", "j-7f3a", client=FakeClient(error=StoreError("[/nonsense] [red]x")))
    assert done.err == "Error: [/nonsense] [red]x\n"


def test_a_crash_is_one_line_and_a_file(mlcd: Command) -> None:
    done = mlcd("status", "j-7f3a", client=FakeClient(error=ZeroDivisionError("by zero")))
    assert done.code == 1
    assert done.err.startswith("mlcd failed unexpectedly: ZeroDivisionError: by zero\n")
    assert "Traceback" not in done.err
    path = Path(re.search(r"(/\S+\.txt)", done.err.replace("\n", "")).group(1))  # type: ignore[union-attr]
    assert "ZeroDivisionError" in path.read_text()
    path.unlink()
