"""`mlcd bench`: search strategies compared on recorded deployments."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from mlcd_bench.runner import Bench, Report, Results

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)

_PROTOCOL, _OUTPUT, _PEERS = "Protocol", "Output", "Peers"

Traces = Annotated[
    list[str] | None,
    typer.Argument(metavar="TRACE…", help="CSV files, folders of them, or synthetic:SEED.", show_default=False),
]
Strategies = Annotated[
    str, typer.Option(help="By name, with options: auto,heterbo,random:k=10.", rich_help_panel=_PROTOCOL)
]
Scenarios = Annotated[str, typer.Option(help="Any of the three.", rich_help_panel=_PROTOCOL)]
HoursOption = Annotated[
    str,
    typer.Option(help="What the fastest deployment trains for; trace: its own samples.", rich_help_panel=_PROTOCOL),
]
Slack = Annotated[str, typer.Option(help="Limit ÷ the least possible time or cost.", rich_help_panel=_PROTOCOL)]
Seeds = Annotated[int, typer.Option(help="Repeats with other noise.", min=1, rich_help_panel=_PROTOCOL)]
Noise = Annotated[
    float, typer.Option(help="Log-normal, of a measurement.", min=0.0, max=1.0, rich_help_panel=_PROTOCOL)
]
ProbeMinutes = Annotated[float, typer.Option(help="Of a probe on one node.", min=0.0, rich_help_panel=_PROTOCOL)]
ProbeStepMinutes = Annotated[
    float, typer.Option(help="More for every three further nodes.", min=0.0, rich_help_panel=_PROTOCOL)
]
Carry = Annotated[
    bool,
    typer.Option(
        "--carry",
        help="Search while training: probes count, and the training moves.",
        rich_help_panel=_PROTOCOL,
    ),
]
StartShare = Annotated[
    float,
    typer.Option(
        help="Of a probe, in which nothing is trained (with --carry).",
        min=0.0,
        max=1.0,
        rich_help_panel=_PROTOCOL,
    ),
]
Preset = Annotated[
    str,
    typer.Option(
        help="A figure of the MLCD paper, fig1 to fig3, fig5, fig9 to fig19, one of Scavenger's, scavenger-fig1 to scavenger-fig12, scavenger-overhead, and section V.B, scavenger-5b, or a section of the SMLT paper, smlt-5.3-deadline, smlt-5.3-budget, smlt-5.4, smlt-5.5, instead of traces.",
        show_default=False,
    ),
]
Peers = Annotated[bool, typer.Option("--peers", help="Also Optuna, Ax, SMAC3 and BoTorch.", rich_help_panel=_PEERS)]
PeerNames = Annotated[str, typer.Option(help="Only these, with --peers.", show_default=False, rich_help_panel=_PEERS)]
PeerSeeds = Annotated[int, typer.Option(help="At most so many seeds: peers are slow.", min=1, rich_help_panel=_PEERS)]
Jobs = Annotated[int, typer.Option(help="Processes; 0: one for each core.", min=0)]
Out = Annotated[Path | None, typer.Option(help="Write JSON there.", show_default=False, rich_help_panel=_OUTPUT)]
Html = Annotated[
    Path | None,
    typer.Option(help="Write a page with figures there.", show_default=False, rich_help_panel=_OUTPUT),
]
JsonFlag = Annotated[bool, typer.Option("--json", help="Write JSON and nothing else.", rich_help_panel=_OUTPUT)]


@app.command(no_args_is_help=True)
def bench(
    traces: Traces = None,
    strategies: Strategies = "auto,heterbo,convbo,cherrypick,random",
    scenarios: Scenarios = "fastest,deadline,budget",
    hours: HoursOption = "24",
    slack: Slack = "2",
    seeds: Seeds = 5,
    noise: Noise = 0.02,
    probe_minutes: ProbeMinutes = 10.0,
    probe_step_minutes: ProbeStepMinutes = 1.0,
    carry: Carry = False,
    start_share: StartShare = 0.3,
    preset: Preset = "",
    peers: Peers = False,
    peer_names: PeerNames = "",
    peer_seeds: PeerSeeds = 3,
    jobs: Jobs = 0,
    out: Out = None,
    html: Html = None,
    json: JsonFlag = False,
) -> None:
    """Compare search strategies with an oracle that knows every deployment's speed and probes nothing.

    Examples:

        mlcd bench traces/gpu_training.csv --hours 6,24 --seeds 20

        mlcd bench traces synthetic:7 --strategies auto,heterbo --html page.html

        mlcd bench --preset fig18
    """
    from mlcd.core.study import ProbeTime
    from mlcd.errors import UserError
    from mlcd_bench.protocol import Rules
    from mlcd_bench.request import read_request

    if preset:
        _run_preset(preset, seeds, jobs, out, html, json)
        return
    if not traces:
        raise UserError("No trace is given.", "Give a CSV file, a folder of them, synthetic:SEED, or --preset fig9.")
    probe_time = ProbeTime(probe_minutes * 60.0, probe_step_minutes * 60.0)
    rules = Rules(noise, probe_time, carry, start_share)
    names = ",".join(filter(None, (strategies, _peers(peers, peer_names))))
    request = read_request(traces, names, scenarios, hours, slack, seeds, peer_seeds, rules)
    _finish(request, _run(request, jobs), out, html, json)


def _peers(wanted: bool, names: str) -> str:
    from mlcd.errors import UserError
    from mlcd_bench.peers import PEERS

    if names and not wanted:
        raise UserError("--peer-names without --peers does nothing.", "Add --peers.")
    return (names or ",".join(PEERS)) if wanted else ""


def _run(request: Bench, jobs: int) -> Results:
    from mlcd_bench.runner import run_bench

    with _Progress() as progress:
        return run_bench(request, jobs or _cores(), progress.report)


def _finish(request: Bench, results: Results, out: Path | None, html: Path | None, json: bool) -> None:
    from mlcd_bench.output import results_data, summary_tables, write_file, write_json
    from mlcd_bench.summary import summarize

    rows = summarize(results.episodes)
    if out is not None:
        write_json(out, results_data(results, rows))
    if html is not None:
        from mlcd_bench.page import results_page

        write_file(html, results_page(request, results, rows))
    if json:
        _print_json(results_data(results, rows))
    else:
        _print(summary_tables(rows, results))


def _run_preset(name: str, seeds: int, jobs: int, out: Path | None, html: Path | None, json: bool) -> None:
    from mlcd_bench.output import write_file, write_json
    from mlcd_bench.preset_runner import preset_tables, run_preset
    from mlcd_bench.presets import find_preset

    preset = find_preset(name)
    with _Progress() as progress:
        findings = run_preset(preset, seeds, jobs or _cores(), progress.report)
    if out is not None:
        write_json(out, findings.data)
    if html is not None:
        from mlcd_bench.page import preset_page

        write_file(html, preset_page(preset, findings))
    if json:
        _print_json(findings.data)
    else:
        _print(preset_tables(preset, findings))


def _cores() -> int:
    import os

    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _print(thing: object) -> None:
    import sys

    from rich.console import Console

    # Figures cut off at 80 columns would be worse than long lines.
    width = None if sys.stdout.isatty() else 110
    Console(highlight=False, width=width).print(thing)


def _print_json(data: object) -> None:
    import json
    import sys

    sys.stdout.write(json.dumps(data, indent=1, allow_nan=False) + "\n")


class _Progress:
    """A bar on a terminal; nothing elsewhere."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        console = Console(stderr=True)
        columns = (TextColumn("episodes"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task = self._bar.add_task("episodes", total=None)

    def __enter__(self) -> _Progress:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    @property
    def report(self) -> Report:
        """What a run calls after every episode."""
        return lambda done, total: self._bar.update(self._task, completed=done, total=total)
