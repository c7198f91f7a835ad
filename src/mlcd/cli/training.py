"""`plan` and `run`: from a job file to a plan, and on to the model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mlcd.cli import options as given
from mlcd.cli.follow import JobFollower, what_next
from mlcd.cli.screen import note, show, show_json
from mlcd.cli.session import get_client
from mlcd.core.run import JobState
from mlcd.core.view import JobView

if TYPE_CHECKING:
    from mlcd.client import ClientProtocol

JsonLinesFlag = Annotated[bool, typer.Option("--json-lines", help="Write each event as JSON, the job at the end.")]
ExplainFlag = Annotated[bool, typer.Option("--explain", help="Explain the choice in plain words.")]
DetachFlag = Annotated[bool, typer.Option("--detach", "-d", help="Start the job, print its id, and return.")]


@given.with_job_options
def plan(
    context: typer.Context,
    job: given.JobFile,
    *,
    explain: ExplainFlag = False,
    options: given.JobOptions,
    json: given.JsonFlag = False,
    json_lines: JsonLinesFlag = False,
) -> None:
    """Try a few deployments and say which one to train on, how long, and for how much.

    The search spends what its probes cost; the training is not started. `mlcd resume JOB --yes` starts it.

    Examples:

        mlcd plan job.yaml --budget 20
        mlcd plan job.yaml --trace trace.csv --workload bert --explain
    """
    client = get_client(context)
    job_id = _submit(client, job, options)
    client.start(job_id)
    following = JobFollower(client, job_id, as_json=json, json_lines=json_lines, explain=explain)
    view = following.until_rest()
    code = following.finish(view)
    raise typer.Exit(0 if view.record.state is JobState.PLANNED else code)


@given.with_job_options
def run(
    context: typer.Context,
    job: given.JobFile,
    *,
    yes: given.YesFlag = False,
    detach: DetachFlag = False,
    explain: ExplainFlag = False,
    options: given.JobOptions,
    json: given.JsonFlag = False,
    json_lines: JsonLinesFlag = False,
) -> None:
    """Find the deployment, show the plan, and train on it.

    Asks before the training unless --yes is given. Ctrl-C detaches (exit code 130): the job goes on.
    Exit codes: 0 done, 100 failed, 101 not finished, 103 stopped, 104 budget exhausted, 105 deadline missed,
    106 goal unreachable.

    Examples:

        mlcd run job.yaml
        mlcd run job.yaml --yes --deadline 6h --goal cheapest
        mlcd run job.yaml --yes --detach --secret HF_TOKEN
    """
    client = get_client(context)
    job_id = _submit(client, job, options)
    if yes:
        client.confirm(job_id)
    client.start(job_id)
    if detach:
        _print_started(client.view(job_id), as_json=json or json_lines)
        return
    following = JobFollower(client, job_id, as_json=json, json_lines=json_lines, explain=explain)
    raise typer.Exit(carry_out(client, following))


def carry_out(client: ClientProtocol, following: JobFollower) -> int:
    """Follow the job through plan, question and training; gives the exit code."""
    view = following.until_rest()
    waits = view.record.state is JobState.PLANNED and not view.record.confirmed
    if waits and following.confirmed(view):
        client.confirm(view.record.id)
        view = following.until_rest()
    return following.finish(view)


def _submit(client: ClientProtocol, job: Path, options: given.JobOptions) -> str:
    loaded = client.load(
        job,
        envs=given.variables(options.env),
        secrets=given.secrets(options.secret),
        overrides=options.overrides,
    )
    for notice in loaded.notices:
        note(f"Note: {notice}", "yellow")
    place = options.place
    job_id = client.submit(loaded, cloud=place.cloud, cloud_options=place.options)
    note(f"Job {job_id}", "dim")
    return job_id


def _print_started(view: JobView, *, as_json: bool) -> None:
    if as_json:
        show_json(view)
        return
    show(f"{view.record.id} is started.", *what_next(view))
