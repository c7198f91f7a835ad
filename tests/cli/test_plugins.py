"""Commands of other distributions: found, run, and missing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.fake_client import Command
from mlcd.cli import plugins


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Have the entry points read anew."""
    read = plugins._entry_points
    read.cache_clear()
    yield
    read.cache_clear()


GREET = """
import typer

app = typer.Typer(add_completion=False)

@app.command()
def greet(name: str, loud: bool = False) -> None:
    \"\"\"Say hello.\"\"\"
    typer.echo(f"HELLO {name}" if loud else f"Hello {name}")
"""


def install(folder: Path, name: str, module: str) -> None:
    """A distribution with one command, as pip leaves it behind."""
    (folder / f"mlcd_{name}.py").write_text(module)
    info = folder / f"mlcd_{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: mlcd-{name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[mlcd.commands]\n{name} = mlcd_{name}:app\n")


def test_a_command_from_outside_is_listed_and_runs(
    mlcd: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "greet", GREET)
    monkeypatch.syspath_prepend(tmp_path)
    assert "greet" in mlcd("--help").out.split("Plug-ins")[1]
    assert mlcd("greet", "Ada", "--loud").out == "HELLO Ada\n"
    assert "Say hello." in mlcd("greet", "--help").out


def test_a_command_that_does_not_load_leaves_the_others_alone(
    mlcd: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "broken", "import no_such_module")
    monkeypatch.syspath_prepend(tmp_path)
    assert "cannot be loaded" in mlcd("--help").out
    done = mlcd("broken", "--anything")
    assert done.code == 2
    assert "named 'no_such_module'" in done.err


@pytest.mark.parametrize("name", plugins.OPTIONAL)
def test_a_command_that_is_not_installed_says_how_to_install_it(
    mlcd: Command, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugins, "_entry_points", dict)
    assert f"│ {name} " in mlcd("--help").out
    for arguments in ([], ["--help"], ["up", "--json"]):
        done = mlcd(name, *arguments)
        assert done.code == 1
        assert f"pip install 'mlcd[{plugins.OPTIONAL[name].extra or name}]'" in done.err


def test_a_built_in_command_reads_no_entry_points(mlcd: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def read() -> dict[str, object]:
        raise AssertionError("entry points were read")

    monkeypatch.setattr(plugins, "_entry_points", read)
    assert mlcd("version").code == 0
