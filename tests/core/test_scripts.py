"""What a job's command shows of its program."""

from __future__ import annotations

import os
import subprocess

import pytest

from mlcd.core.scripts import first_script, keeping_python_path

SHOW = "python3 -c 'import os; print(os.environ[\"PYTHONPATH\"])'"


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (f"PYTHONPATH=src {SHOW}", "/worker:src"),
        (f"export PYTHONPATH='a b'\n{SHOW}", "/worker:a b"),
        (f"env PYTHONPATH=src {SHOW}", "/worker:src"),
        (f"PYTHONPATH=src:$PYTHONPATH {SHOW}", "src:/worker"),
        (f"PYTHONPATH=src:${{PYTHONPATH}} {SHOW}", "src:/worker"),
        (f"MY_PYTHONPATH=src {SHOW}", "/worker"),
        (SHOW, "/worker"),
    ],
)
@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_command_that_sets_the_module_path_keeps_what_was_in_it(shell: str, command: str, expected: str) -> None:
    run = [shell, "-c", keeping_python_path(command)]
    env = {**os.environ, "PYTHONPATH": "/worker"}
    assert subprocess.run(run, env=env, capture_output=True, text=True, check=True).stdout.strip() == expected


@pytest.mark.parametrize(
    ("command", "script"),
    [
        ("python train.py --plugin gen.py", "train.py"),
        ("python train.py --save $OUT/x.sh", "train.py"),
        ("python $ROOT/train.py --plugin gen.py", None),
        ("python ${MAIN} --save out.sh", None),
        ("python `cat main` --save out.sh", None),
        ("python $(cat main) --save out.sh", None),
        ("$VENV/bin/python train.py", "train.py"),
        ("python -m train --plugin gen.py", None),
    ],
)
def test_the_script_is_not_guessed_where_the_shell_may_put_it(command: str, script: str | None) -> None:
    assert first_script(command) == script


def test_a_module_path_that_was_empty_gets_no_empty_entry() -> None:
    run = keeping_python_path(f"PYTHONPATH=src {SHOW}")
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(["sh", "-c", run], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "src"
