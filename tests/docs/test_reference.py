"""The reference says what the program says."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from doc_pages import DOCS, ROOT
from mlcd import errors, registry
from mlcd.api import Client
from mlcd.catalog.traces import REQUIRED
from mlcd.cli import session
from mlcd.clouds.replay.options import NAMES as REPLAY_OPTIONS


def page(name: str) -> str:
    return (DOCS / "reference" / name).read_text(encoding="utf-8")


def made(code: str) -> str:
    """What docs/make_reference.py and its parts make."""
    run = [sys.executable, "-c", code]
    return subprocess.run(run, cwd=DOCS, capture_output=True, text=True, check=True).stdout


def ours(group: str) -> list[str]:
    """The plug-ins of this repository: packages of others may be installed beside it."""
    found = registry.loadable(group)
    return [name for name, plugin in found.items() if plugin.__module__.partition(".")[0] in ("mlcd", "mlcd_bench")]


def test_the_command_reference_is_what_the_commands_say() -> None:
    now = made("import make_reference as m; print(m.make_page(), end='')")
    assert page("commands.md") == now, "run: python docs/make_reference.py"


def test_the_tables_of_the_job_file_are_what_its_definition_says() -> None:
    now = made("import job_file_page as m; print(m.make_page(m.PAGE.read_text()), end='')")
    assert page("job-file.md") == now, "run: python docs/make_reference.py"


def test_the_settings_reference_is_what_the_sections_say() -> None:
    now = made("import settings_page as m; print(m.make_page(), end='')")
    assert page("settings.md") == now, "run: python docs/make_reference.py"


@pytest.mark.parametrize("name", ours("searchers"))
def test_a_strategy_is_described(name: str) -> None:
    assert f"`{name}`" in page("job-file.md").partition("### Strategies")[2].partition("\n## ")[0]


@pytest.mark.parametrize("name", ours("platforms"))
def test_a_platform_is_described(name: str) -> None:
    listed = (DOCS / "how-to" / "other-frameworks.md").read_text(encoding="utf-8").partition("\n## ")[0]
    assert f"\n| `{name}` |" in listed


def test_every_variable_that_a_program_is_given_is_described() -> None:
    sources = [*(ROOT / "src/mlcd/platforms").glob("*.py"), ROOT / "src/mlcd/worker/environment.py"]
    given = {name for file in sources for name in re.findall(r'"((?:MLCD|SKYPILOT|PET)_\w+)"', file.read_text())}
    missing = [name for name in sorted(given) if f"`{name}`" not in page("environment.md")]
    assert missing == []


def test_every_exit_code_is_described() -> None:
    tree = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, errors.MlcdError)]
    codes = {
        0,
        session.NOT_FINISHED,
        session.DETACHED,
        *session._STATE_CODES.values(),
        *(each.exit_code for each in tree),
    }
    described = {int(code) for code in re.findall(r"^\| (\d+) \|", page("exit-codes.md"), re.MULTILINE)}
    assert described == codes


def test_every_column_of_a_trace_and_option_of_a_replay_is_described() -> None:
    text = page("trace-format.md")
    for column in REQUIRED:
        assert re.search(rf"\| `{column}` \| required \|", text)
    told_otherwise = {"trace", "workload", "noise", "state"}
    assert [name for name in sorted(REPLAY_OPTIONS - told_otherwise) if f"`{name}`" not in text] == []


def test_every_verb_of_the_client_is_described_and_no_other() -> None:
    attributes = {"store", "models", "poll_seconds", "default_cloud"}
    verbs = {name for name in dir(Client) if not name.startswith("_")} - attributes
    table = page("python.md").partition("## mlcd.Client")[2].partition("\n## ")[0]
    described = set(re.findall(r"`(\w+)\(", table)) - {"Client"}
    assert described == verbs


def test_every_name_of_the_package_is_described() -> None:
    import mlcd

    for name in mlcd.__all__:
        assert name.startswith("__") or f"mlcd.{name}" in page("python.md")
