"""`mlcd bench`: search strategies compared on recorded deployments."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from mlcd_bench.runner import Bench, Results

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)

_PROTOCOL, _OUTPUT, _PEERS = "Protocol", "Output", "Peers"
_WITH_PRESET = ("preset", "seeds", "jobs", "out", "html", "json")

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
        help="A figure of a paper instead of traces, such as fig18, fc2-fig7 or smlt-fig12; all: every one.",
        show_default=False,
    ),
]
Peers = Annotated[bool, typer.Option("--peers", help="Also Optuna, Ax, SMAC3 and BoTorch.", rich_help_panel=_PEERS)]
PeerNames = Annotated[str, typer.Option(help="Only these, with --peers.", show_default=False, rich_help_panel=_PEERS)]
PeerSeeds = Annotated[int, typer.Option(help="At most so many seeds: peers are slow.", min=1, rich_help_panel=_PEERS)]
Jobs = Annotated[int, typer.Option(help="Processes; 0: one for each core.", min=0)]
Out = Annotated[
    Path | None,
    typer.Option(
        help="Write JSON there; with --preset all a folder, a file for each.",
        show_default=False,
        rich_help_panel=_OUTPUT,
    ),
]
Html = Annotated[
    Path | None,
    typer.Option(
        help="Write a page with figures there; with --preset all a folder, a page for each and index.html.",
        show_default=False,
        rich_help_panel=_OUTPUT,
    ),
]
JsonFlag = Annotated[bool, typer.Option("--json", help="Write JSON and nothing else.", rich_help_panel=_OUTPUT)]


@app.command(no_args_is_help=True)
def bench(
    context: typer.Context,
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

    A claim of a paper that does not hold is a finding and no error. The exit code is 0 where everything was played,
    1 where a preset of --preset all could not be, and 2 where something asked for makes no sense.

    Examples:

        mlcd bench traces/gpu_training.csv --hours 6,24 --seeds 20

        mlcd bench traces synthetic:7 --strategies auto,heterbo --html page.html

        mlcd bench --preset fig18

        mlcd bench --preset all --html figures
    """
    from mlcd.core.study import ProbeTime
    from mlcd.errors import UserError
    from mlcd_bench.output import refuse_unwritable
    from mlcd_bench.protocol import Rules
    from mlcd_bench.request import read_request

    if preset:
        _refuse_beside_preset(context)
        from mlcd_bench.console import cores
        from mlcd_bench.presets.command import play_and_show
        from mlcd_bench.presets.every import Play

        play_and_show(preset, Play(seeds, out, html), jobs or cores(), json)
        return
    if not traces:
        raise UserError("No trace is given.", "Give a CSV file, a folder of them, synthetic:SEED, or --preset fig9.")
    probe_time = ProbeTime(probe_minutes * 60.0, probe_step_minutes * 60.0)
    rules = Rules(noise, probe_time, carry, start_share)
    names = ",".join(filter(None, (strategies, _peers(peers, peer_names))))
    request = read_request(traces, names, scenarios, hours, slack, seeds, peer_seeds, rules)
    refuse_unwritable(out, html)
    _finish(request, _run(request, jobs), out, html, json)


def _refuse_beside_preset(context: typer.Context) -> None:
    """A preset brings its own jobs, strategies and limits: raise where something is asked for that would not be heard."""
    from mlcd.errors import UserError

    given = [name for name in context.params if name not in _WITH_PRESET and _is_given(context, name)]
    unheard = ["the traces" if name == "traces" else f"--{name.replace('_', '-')}" for name in given]
    if unheard:
        hint = f"Leave out {', '.join(unheard)}, or --preset."
        raise UserError("A preset has its own jobs, strategies and limits.", hint)


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _peers(wanted: bool, names: str) -> str:
    from mlcd.errors import UserError
    from mlcd_bench.peers import PEERS

    if names and not wanted:
        raise UserError("--peer-names without --peers does nothing.", "Add --peers.")
    return (names or ",".join(PEERS)) if wanted else ""


def _run(request: Bench, jobs: int) -> Results:
    from mlcd_bench.console import Bar, cores
    from mlcd_bench.runner import run_bench

    with Bar("episodes") as bar:
        return run_bench(request, jobs or cores(), bar.report)


def _finish(request: Bench, results: Results, out: Path | None, html: Path | None, json: bool) -> None:
    from mlcd_bench.console import print_json, print_out
    from mlcd_bench.output import results_data, summary_tables, write_file, write_json
    from mlcd_bench.summary import summarize

    rows = summarize(results.episodes)
    if out is not None:
        write_json(out, results_data(results, rows))
    if html is not None:
        from mlcd_bench.page import results_page

        write_file(html, results_page(request, results, rows))
    if json:
        print_json(results_data(results, rows))
    else:
        print_out(summary_tables(rows, results))
