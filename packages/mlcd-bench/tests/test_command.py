"""`mlcd bench` from the command line."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest

from mlcd.cli.main import main
from mlcd_bench.output import EPISODE_KEYS

ROWS = """workload,instance,nodes,throughput,usd_per_node_hour,status,samples
toy,small,1,100,1,ok,360000
toy,small,2,180,1,ok,360000
toy,small,4,300,1,ok,360000
toy,large,1,500,8,ok,360000
toy,large,2,,8,failed,360000
"""


@pytest.fixture
def trace(tmp_path: Path) -> str:
    file = tmp_path / "toy.csv"
    file.write_text(ROWS)
    return str(file)


def test_the_table_shows_every_scenario_and_a_conclusion(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", trace, "--strategies", "random:k=2,exhaustive", "--seeds", "1", "--jobs", "1"]) == 0
    shown = capsys.readouterr().out
    for words in ("fastest, no limit", "before a deadline", "within a budget", "random:k=2", "exhaustive"):
        assert words in shown
    assert re.search("Closest to the oracle|No strategy kept", shown)


def test_the_file_has_the_keys_that_others_rely_on(trace: str, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    words = [
        "--strategies",
        "random:k=2",
        "--hours",
        "6,trace",
        "--slack",
        "1.5,2",
        "--seeds",
        "2",
        "--jobs",
        "1",
    ]
    assert main(["bench", trace, *words, "--out", str(out)]) == 0
    data = json.loads(out.read_text())
    assert all(tuple(episode) == EPISODE_KEYS for episode in data["episodes"])
    assert len(data["episodes"]) == 3 * 2 * 2 * 2
    assert {row["hours"] for row in data["summary"]} == {6.0, "trace"}


def test_json_is_all_that_json_writes(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--strategies", "random:k=1", "--scenarios", "fastest", "--seeds", "1", "--jobs", "1", "--json"]
    assert main(["bench", trace, *words]) == 0
    keys = {"episodes", "summary", "stop_rules", "not_applicable"}
    assert set(json.loads(capsys.readouterr().out)) == keys


def test_paleo_is_not_applicable_to_a_workload_that_it_knows_nothing_of(
    trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    words = ["--strategies", "random:k=1,paleo", "--scenarios", "fastest", "--seeds", "1", "--jobs", "1"]
    assert main(["bench", trace, *words, "--html", str(page)]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"paleo +not applicable", shown)
    assert "paleo is not applicable to toy: it knows no facts about these models." in page.read_text()
    assert main(["bench", trace, "--strategies", "paleo", "--jobs", "1"]) == 2
    assert "not applicable to any workload" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--strategies", "hetrbo"], "Did you mean 'heterbo'?"),
        (["--strategies", "random:k"], "is not an option"),
        (["--strategies", "random:colour=3"], "random:colour=3"),
        (["--scenarios", "fast"], "Did you mean 'fastest'?"),
        (["--hours", "many"], "'many' in --hours is not a number"),
        (["--hours", "-1"], "must take some time"),
        (["--slack", "0.5"], "at least 1"),
        (["--strategies", ","], "names nothing"),
        (["--peer-names", "ax"], "Add --peers"),
    ],
)
def test_what_is_wrong_is_said_with_exit_code_2(
    trace: str, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", trace, *words]) == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_a_trace_that_is_not_there_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "no/such.csv"]) == 2
    assert "no/such.csv" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--preset", "fig8"], "No preset is called 'fig8'."),
        (["--preset", "fc2fig7"], "Did you mean 'fc2-fig7'?"),
        (["--preset", "al"], "Did you mean 'all'?"),
        (["trace.csv", "--preset", "fig9", "--hours", "6"], "Leave out --hours, the traces, or --preset."),
        (["--preset", "all", "--strategies", "auto", "--carry"], "Leave out --strategies, --carry, or --preset."),
    ],
)
def test_a_preset_that_is_not_known_and_what_it_would_not_hear_are_named(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", *words]) == 2
    assert said in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("option", ["--out", "--html"])
@pytest.mark.parametrize(("name", "why"), [("no/such.x", "there is no folder"), (".", "it is a folder")])
@pytest.mark.parametrize("preset", [True, False])
def test_a_file_that_cannot_be_written_is_said_before_anything_is_played(
    option: str,
    name: str,
    why: str,
    preset: bool,
    trace: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for module in ("mlcd_bench.runner.run_bench", "mlcd_bench.presets.command.run_preset"):
        monkeypatch.setattr(module, played)
    asked = ["--preset", "fig9"] if preset else [trace, "--strategies", "random:k=1"]
    assert main(["bench", *asked, option, str(tmp_path / name)]) == 2
    assert f"cannot be written: {why}" in " ".join(capsys.readouterr().err.split())


def played(*_: object) -> None:
    raise AssertionError("it was played")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("preset", "shown"),
    [("fig9", "step by step"), ("fig3", "Speed over the number of nodes"), ("smlt-fig12", "best possible")],
)
def test_a_preset_writes_its_findings_and_its_page(
    preset: str, shown: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, page = tmp_path / "found.json", tmp_path / "page.html"
    words = ["--preset", preset, "--seeds", "1", "--jobs", "1", "--out", str(data), "--html", str(page)]
    assert main(["bench", *words, "--json"]) == 0
    written = json.loads(data.read_text())
    assert written == json.loads(capsys.readouterr().out)
    text = page.read_text()
    assert all(claim["claim"] in html.unescape(text) for claim in written["claims"])
    assert shown in text
    assert "<script src" not in text


@pytest.mark.slow
def test_the_page_needs_nothing_from_elsewhere(trace: str, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    words = [
        "--strategies",
        "heterbo,random:k=2",
        "--hours",
        "6,24",
        "--slack",
        "1.5,2",
        "--seeds",
        "1",
        "--jobs",
        "1",
    ]
    assert main(["bench", trace, *words, "--html", str(page)]) == 0
    text = page.read_text()
    titles = (
        "split into profiling and training",
        "Ratio against job size",
        "Sensitivity to the deadline",
        "step by step",
    )
    assert all(title in text for title in titles)
    assert "<script src" not in text
    assert "<link" not in text
