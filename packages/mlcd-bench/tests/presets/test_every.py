"""`mlcd bench --preset all`: files as each preset ends, a summary at the end, an exit code that says whether all were played."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import psutil
import pytest

from mlcd.cli.main import main
from mlcd.errors import MlcdError
from mlcd_bench.presets import command as preset_command
from mlcd_bench.presets.every import LIBRARY, NotPlayed, Play, PresetResult, play_all, play_one
from mlcd_bench.presets.preset import all_presets
from mlcd_bench.presets.runner import Finding, Findings
from mlcd_bench.presets.summary import conclusion, failing_claims, line, summary_data

QUICK = ("fc2-tables", "fig3", "fc2-fig17")

HOLDS = Finding("faster", "2 ×", "3 ×", True)
FAILS = Finding("cheaper", "2 ×", "0.5 ×", False)
SAID = Finding("cost", "—", "$3", None)
PLAYED = PresetResult("fig1", "Prices", 2.0, Findings((), (HOLDS, HOLDS, FAILS, SAID)))
MISSING = NotPlayed("fig2", 1.0, "There is no trace.")


def only(names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preset_command, "all_presets", lambda: dict.fromkeys(names))


def interruptible() -> None:
    """As on a terminal; whoever starts the tests in the background has interrupts ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_the_summary_counts_claims_that_hold_and_names_those_that_do_not() -> None:
    data = summary_data((PLAYED, MISSING), 60.0)
    assert (data["hold"], data["do_not_hold"], data["not_played"]) == (2, 1, ["fig2"])
    assert list(failing_claims((PLAYED, MISSING))) == [("fig1", "cheaper", "2 ×", "0.5 ×")]
    said = conclusion((PLAYED, MISSING), 60.0)
    assert said == "1 presets in 1.0 minutes: 2 claims hold, 1 do not; 1 could not be played."


def test_each_preset_is_said_as_it_ends() -> None:
    assert line(PLAYED, 1, 2) == "1/2 fig1: 2 of 3 claims hold, 2.0 s"
    assert line(MISSING, 2, 2) == "2/2 fig2: not played: There is no trace."


def test_a_preset_that_cannot_be_played_is_an_outcome() -> None:
    outcome = play_one(Play(seeds=1), "fig99")
    assert isinstance(outcome, NotPlayed)
    assert "fig99" in outcome.reason


@pytest.mark.slow
def test_outcomes_come_in_the_order_of_the_names_whoever_ends_first() -> None:
    names, said = ("fc2-fig17", "fc2-tables", "fig99"), []
    outcomes = play_all(names, partial(play_one, Play(seeds=1)), 2, lambda outcome, done, total: said.append(done))
    assert tuple(outcome.name for outcome in outcomes) == names
    assert said == [1, 2, 3]


@pytest.mark.slow
def test_a_process_that_is_killed_ends_the_run_with_a_reason() -> None:
    with pytest.raises(MlcdError, match="ended from outside"):
        play_all((1, 1), os._exit, 1)  # type: ignore[arg-type]  # a name that ends whoever plays it


@pytest.mark.slow
@pytest.mark.parametrize(("end", "code"), [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 130)])
def test_no_process_outlives_the_command(end: signal.Signals, code: int) -> None:
    words = [sys.executable, "-m", "mlcd", "bench", "--preset", "all", "--jobs", "1"]
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    with subprocess.Popen(words, **pipes, text=True, preexec_fn=interruptible) as command:
        assert command.stderr is not None
        assert command.stderr.readline().startswith("1/")
        children = psutil.Process(command.pid).children(recursive=True)
        command.send_signal(end)
        assert command.wait(60) == code
    assert children
    assert psutil.wait_procs(children, 60)[1] == []


@pytest.mark.slow
def test_every_preset_writes_its_files_and_the_summary_stands_beside_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    only(QUICK, monkeypatch)
    data, pages = tmp_path / "new" / "data", tmp_path / "pages"
    words = ["--preset", "all", "--seeds", "1", "--jobs", "1", "--out", str(data), "--html", str(pages)]
    assert main(["bench", *words, "--json"]) == 0
    printed = capsys.readouterr()
    summary = json.loads(printed.out)
    assert summary == json.loads((data / "summary.json").read_text())
    assert [each["name"] for each in summary["presets"]] == list(QUICK)
    assert "3/3 fc2-fig17: " in printed.err
    assert {file.name for file in data.iterdir()} == {*(f"{name}.json" for name in QUICK), "summary.json"}
    assert {file.name for file in pages.iterdir()} == {*(f"{name}.html" for name in QUICK), "index.html", LIBRARY}
    index = (pages / "index.html").read_text()
    assert all(f"<a href='{name}.html'>" in index for name in QUICK)
    assert f"<script src='{LIBRARY}'>" in (pages / "fc2-fig17.html").read_text()


@pytest.mark.slow
def test_the_exit_code_says_that_a_preset_could_not_be_played(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    only(("fc2-tables", "fig99"), monkeypatch)
    assert main(["bench", "--preset", "all", "--seeds", "1", "--jobs", "1"]) == 1
    shown = capsys.readouterr().out
    assert "not played: No preset is called 'fig99'" in shown
    assert "3 claims hold, 0 do not; 1 could not be played." in shown


@pytest.mark.parametrize("option", ["--out", "--html"])
def test_a_file_where_a_folder_belongs_is_refused_before_anything_is_played(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "results.json"
    file.write_text("mine")
    assert main(["bench", "--preset", "all", option, str(file)]) == 2
    assert f"{option} names a folder" in " ".join(capsys.readouterr().err.split())
    assert file.read_text() == "mine"


def test_no_preset_is_called_all() -> None:
    assert "all" not in all_presets()
