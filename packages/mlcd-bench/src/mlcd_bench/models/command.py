"""`mlcd bench models`: how well training times are predicted, beside Scavenger's figures."""

from __future__ import annotations

import json as json_text
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console, RenderableType
from rich.table import Table

from mlcd_bench.models.data import RecordedFolder, RecordedJob, read_jobs
from mlcd_bench.models.evaluation import Mode, Prediction, Results, compare_forms, run_models

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)

# Scavenger, section V.C and figure 11, on its own three jobs (ResNet-18, ResNet-50, Transformer; CPU machines).
SCAVENGER = {Mode.FULL: "0.5–3.5 %", Mode.PARTIAL: "4 %", Mode.UNIVERSAL: "4–20 %"}

_SEEN = {
    Mode.FULL: "full: every deployment profiled, samples at every second batch size",
    Mode.PARTIAL: "partial: six deployments of each type profiled, samples at two batch sizes",
    Mode.UNIVERSAL: "universal: one probe on two nodes, its batch whole, in pieces, together; shapes from the other jobs",
    Mode.ONE_DEVICE: "universal_one_device: one probe on one device, its batch whole and in pieces; the same",
    Mode.SCALE_ONLY: "universal_scale_only: one probe, a single step time; shapes from the other jobs",
}


@app.command(no_args_is_help=True)
def models(
    folder: Annotated[Path, typer.Argument(help="With CSV files of gradient noise, step times and traces.")],
    seed: Annotated[int, typer.Option(help="Of the noise in profiled steps.", min=0)] = 0,
    json: Annotated[bool, typer.Option("--json", help="Write JSON and nothing else.")] = False,
) -> None:
    """Forecast the training time of every recorded deployment and batch size, and say how far off that was.

    Files are known by their columns, whatever their names. A job counts where its gradient noise is recorded.

    Examples:

        mlcd bench models traces
    """
    found = read_jobs(folder)
    results = run_models(found.jobs, seed)
    if json:
        typer.echo(json_text.dumps(results_data(results, found.jobs), indent=2, allow_nan=False))
        return
    console = Console(highlight=False)
    for part in _tables(results, found):
        console.print(part)


def results_data(results: Results, jobs: Iterable[RecordedJob]) -> dict[str, Any]:
    """The errors as JSON knows them, as fractions; jobs count alike in means, deployments in the p90."""
    data: dict[str, Any] = {mode.value: _mode_data(results[mode]) for mode in Mode}
    forms = {job.name: compare_forms(job) for job in jobs}
    data["statistical_forms"] = {
        name: {"best": found.best, "leave_one_out_error": dict(found.errors)}
        for name, found in forms.items()
        if found is not None
    }
    return data


def _mode_data(by_job: Mapping[str, tuple[Prediction, ...]]) -> dict[str, Any]:
    everything = [one for predicted in by_job.values() for one in predicted]
    means = {name: _mean_error(predicted) for name, predicted in by_job.items()}
    origins = sorted({one.recorded.origin for one in everything} - {""})
    return {
        "mean_error": float(np.mean(list(means.values()))),
        "p90_error": float(np.quantile([one.error for one in everything], 0.9)),
        "by_workload": means,
        "by_origin": {
            origin: _mean_error(one for one in everything if one.recorded.origin == origin) for origin in origins
        },
        "within_interval": float(np.mean([one.covered for one in everything])),
        "deployments": len(everything),
    }


def _mean_error(predicted: Iterable[Prediction]) -> float:
    return float(np.mean([one.error for one in predicted]))


def _tables(results: Results, found: RecordedFolder) -> Iterable[RenderableType]:
    data = {mode: _mode_data(results[mode]) for mode in Mode}
    yield _errors_table(data)
    yield _jobs_table(data, [job.name for job in found.jobs])
    yield _forms_table(found.jobs)
    yield from _SEEN.values()
    yield from (f"Left out: {notice}." for notice in found.notices)


def _errors_table(data: Mapping[Mode, Mapping[str, Any]]) -> Table:
    table = Table(title="Error of the forecast training time", title_justify="left", box=None)
    table.add_column("mode", no_wrap=True)
    for column in ("mean", "p90", "Scavenger's mean", "in the 95 % interval"):
        table.add_column(column, justify="right", no_wrap=True)
    for mode, errors in data.items():
        shown = [_percent(errors["mean_error"]), _percent(errors["p90_error"]), SCAVENGER.get(mode, "–")]
        table.add_row(mode.value, *shown, _percent(errors["within_interval"]))
    return table


def _jobs_table(data: Mapping[Mode, Mapping[str, Any]], names: Iterable[str]) -> Table:
    table = Table(title="Mean error by job", title_justify="left", box=None)
    table.add_column("job", no_wrap=True)
    for mode in data:
        table.add_column(mode.value, justify="right", no_wrap=True)
    for name in names:
        table.add_row(name, *(_percent(errors["by_workload"][name]) for errors in data.values()))
    return table


def _forms_table(jobs: Iterable[RecordedJob]) -> Table:
    table = Table(title="Samples to target, each batch size from the others", title_justify="left", box=None)
    for column in ("job", "1 + B/φ", "1 + √(B/φ)", "Scavenger", "best"):
        table.add_column(column, justify="left" if column in ("job", "best") else "right", no_wrap=True)
    for job in jobs:
        forms = compare_forms(job)
        if forms is None:
            table.add_row(job.name, "–", "–", "–", "too few batch sizes")
        else:
            table.add_row(job.name, *map(_percent, forms.errors.values()), forms.best)
    return table


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
