"""`mlcd bench --preset`: one figure of a paper, or all of them."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import typer

from mlcd_bench.console import Bar, print_json, print_out
from mlcd_bench.output import refuse_unwritable, write_file, write_json
from mlcd_bench.presets.every import LIBRARY, NotPlayed, Outcome, Play, make_folders, play_all, play_one
from mlcd_bench.presets.preset import ALL, all_presets, find_preset
from mlcd_bench.presets.runner import preset_tables, run_preset
from mlcd_bench.presets.summary import conclusion, line, summary_data, summary_table


def play_and_show(name: str, play: Play, jobs: int, json: bool) -> None:
    """Play that preset or all, write what is to be written, and print what was found."""
    if name == ALL:
        _play_and_show_all(play, jobs, json)
    else:
        _play_and_show_one(name, play, jobs, json)


def _play_and_show_one(name: str, play: Play, jobs: int, json: bool) -> None:
    preset = find_preset(name)
    refuse_unwritable(play.out, play.html)
    with Bar("episodes") as bar:
        findings = run_preset(preset, play.seeds, jobs, bar.report)
    if play.out is not None:
        write_json(play.out, findings.data)
    if play.html is not None:
        from mlcd_bench.page import preset_page

        write_file(play.html, preset_page(preset, findings))
    if json:
        print_json(findings.data)
    else:
        print_out(preset_tables(preset, findings))


def _play_and_show_all(play: Play, jobs: int, json: bool) -> None:
    make_folders(play)
    began = time.perf_counter()
    with Bar("presets") as bar:

        def played(outcome: Outcome, done: int, total: int) -> None:
            bar.report(done, total)
            bar.say(line(outcome, done, total))

        outcomes = play_all(tuple(all_presets()), partial(play_one, play), jobs, played)
    seconds = time.perf_counter() - began
    data = summary_data(outcomes, seconds)
    if play.out is not None:
        write_json(play.out / "summary.json", data)
    if play.html is not None:
        _write_index(play.html, outcomes, seconds)
    if json:
        print_json(data)
    else:
        print_out(summary_table(outcomes, seconds))
    if any(isinstance(outcome, NotPlayed) for outcome in outcomes):
        raise typer.Exit(1)


def _write_index(folder: Path, outcomes: tuple[Outcome, ...], seconds: float) -> None:
    from plotly.offline import get_plotlyjs

    from mlcd_bench.page import index_page

    write_file(folder / LIBRARY, get_plotlyjs())
    write_file(folder / "index.html", index_page(outcomes, conclusion(outcomes, seconds)))
