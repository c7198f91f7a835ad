"""What the pages show can be typed, loaded, compiled and run."""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer
from ruamel.yaml import YAML

from doc_pages import DOCS, ROOT, Block, blocks
from mlcd.cli.main import app
from mlcd.core.jobfile import parse_job
from mlcd_bench.command import app as bench_app
from mlcd_emulate.command import app as emulate_app
from mlcd_functions.packaging.command import app as package_app

SMALLEST_JOB = "run: python train.py\nwork: {samples: 1000}\n"
ENVIRON = {"HF_TOKEN": "hidden", "SLACK_URL": "https://example.org/hidden"}


def commands() -> list[tuple[str, str]]:
    """Where, and which `mlcd` commands are shown: after a prompt, or in a script."""
    found = []
    for block in [*blocks("console"), *blocks("bash")]:
        for line in block.text.splitlines():
            words = line.removeprefix("$ ")
            if (line.startswith("$ ") or block.language == "bash") and re.match(r"(?:\w+=\S+ )*mlcd ", words):
                found.append((str(block), words))
    return found


def in_text() -> list[tuple[str, str]]:
    """Commands in the running text of the pages: `mlcd sweep --yes`, with JOB for an id."""
    pages = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
    return [
        (str(page.relative_to(ROOT)), words)
        for page in pages
        for words in re.findall(r"(?<!`)`(mlcd [a-z][^`\n]*)`(?!`)", page.read_text(encoding="utf-8"))
        if re.fullmatch(r"mlcd [a-z]+( .*)?", words)
    ]


def parse(words: str) -> Any:
    """Have the command line parse a command without carrying it out."""
    bare = re.sub(r"^(?:\w+=\S+ )*mlcd ", "", words)
    command, rest = command_called(shlex.split(re.split(r"\s[>|]\s", bare)[0], comments=True))
    return command.make_context(command.name, rest)


def command_called(arguments: list[str]) -> tuple[Any, list[str]]:
    """The command, and what is left for it; two are in distributions of their own."""
    name, *rest = arguments
    group: Any = typer.main.get_command(app)
    others = {"bench": bench_app, "emulate": emulate_app, "package": package_app}
    command: Any = typer.main.get_command(others[name]) if name in others else group.commands[name]
    while hasattr(command, "commands"):
        name, *rest = rest
        command = command.commands[name]
    return command, rest


@pytest.mark.parametrize(("where", "words"), commands())
def test_a_command_shown_can_be_typed(where: str, words: str) -> None:
    assert parse(words).params


@pytest.mark.parametrize(("where", "words"), in_text())
def test_a_command_in_the_text_exists_with_its_options(where: str, words: str) -> None:
    command, rest = command_called(words.split()[1:])
    if not rest:
        words += " JOB" * needed_arguments(command) + "".join(f" {name} x" for name in needed_options(command))
    assert parse(words).params


def needed_options(command: Any) -> list[str]:
    """The options that a command named in passing cannot do without."""
    return [each.opts[0] for each in command.params if each.param_type_name == "option" and each.required]


def needed_arguments(command: Any) -> int:
    """How many jobs, traces or other things this command, named in passing, wants to be told."""
    needed = [each for each in command.params if each.param_type_name == "argument" and each.required]
    return max(len(needed), int(command.name == "bench"))


JOBS = [block for block in blocks("yaml") if block.mark != "manifest"]


@pytest.mark.parametrize("block", JOBS, ids=str)
def test_a_job_shown_can_be_loaded(block: Block) -> None:
    text = block.text if block.mark != "partial" else SMALLEST_JOB + block.text
    loaded = parse_job(text, "job.yaml", ROOT / "examples" / "digits", environ=ENVIRON)
    assert loaded.job.work is not None
    assert loaded.notices == ()


@pytest.mark.parametrize("block", blocks("yaml", "manifest"), ids=str)
def test_a_manifest_shown_can_be_applied(block: Block) -> None:
    for each in YAML(typ="safe").load_all(block.text):
        assert each["apiVersion"]
        assert each["kind"]
        assert each["metadata"]["name"]


@pytest.mark.parametrize("block", blocks("toml"), ids=str)
def test_a_setting_shown_can_be_read(block: Block) -> None:
    assert tomllib.loads(block.text)


@pytest.mark.parametrize("block", blocks("python"), ids=str)
def test_python_shown_can_be_compiled(block: Block) -> None:
    assert ast.parse(block.text).body


@pytest.mark.slow
@pytest.mark.parametrize("block", blocks("python", "runs"), ids=str)
def test_python_shown_runs(block: Block, tmp_path: Path) -> None:
    for name in ("images.yaml", "trace.csv"):
        (tmp_path / name).write_bytes((DOCS / "tutorial" / name).read_bytes())
    done = run(["-c", block.text], tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("block", blocks("python", "contract"), ids=str)
def test_a_strategy_shown_keeps_the_contract(block: Block, tmp_path: Path) -> None:
    (tmp_path / "test_shown.py").write_text(block.text)
    done = run(["-m", "pytest", "-q", "-p", "no:cacheprovider", "test_shown.py"], tmp_path)
    assert done.returncode == 0, done.stdout
    assert re.search(r"\d+ passed", done.stdout)


def run(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "MLCD_HOME": str(folder / "home")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_the_readme_shows_the_job_that_try_runs() -> None:
    """All that the README shows of the job is in the example's file."""
    (shown,) = [block for block in blocks("yaml") if block.page == ROOT / "README.md"]
    base = ROOT / "examples" / "digits"
    ours = parse_job(shown.text, "job.yaml", base).job
    theirs = parse_job((base / "job.yaml").read_text(), "job.yaml", base).job
    same = ("name", "run", "platform", "nodes", "work", "batch_sizes", "aim", "budget_usd", "probe")
    assert [getattr(ours, name) for name in same] == [getattr(theirs, name) for name in same]
