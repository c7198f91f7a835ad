"""`status`, `logs`, `stop`, `resume` and `report`: jobs that were submitted before."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from mlcd.cli import options as given
from mlcd.cli.displays import probe_words, training_picture, training_share
from mlcd.cli.follow import JobFollower, ending, facts, what_next
from mlcd.cli.screen import interactive, lines, note, printable, show, show_json, show_json_line
from mlcd.cli.session import exit_code, get_client
from mlcd.cli.tables import bill_table, jobs_table, plan_lines, state_text, totals, trials_lines
from mlcd.cli.training import carry_out
from mlcd.core.run import JobState
from mlcd.core.view import JobView
from mlcd.reporting.gauges import goal_in_words
from mlcd.reporting.stopping import goes_on_from, stopping_loses

NO_CONTROLLER = "No controller is running for this job; mlcd starts one now. Until then time and cost are estimates."


def status(
    context: typer.Context,
    job: Annotated[str | None, typer.Argument(metavar="[JOB]", help="The job's id; all jobs without it.")] = None,
    by_state: Annotated[
        bool,
        typer.Option("--exit-code", help="Exit with the job's code: 0 done, 101 not finished, 100 failed, …"),
    ] = False,
    json: given.JsonFlag = False,
) -> None:
    """Show the state of a job, or list all jobs.

    A job whose controller died gets a new one.

    Examples:

        mlcd status
        mlcd status digits-3f2a1c --json
        mlcd status digits-3f2a1c --exit-code
    """
    client = get_client(context)
    if job is None:
        views = client.views()
        _show_all(views) if not json else show_json(views)
        return
    view = client.view(job)
    show_json(view) if json else _show_one(view)
    if by_state:
        raise typer.Exit(exit_code(view))


def logs(
    context: typer.Context,
    job: given.JobId,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep printing as the log grows.")] = False,
    node: Annotated[int, typer.Option(help="The node, from 0.", min=0)] = 0,
    task: Annotated[str | None, typer.Option(help="A probe or attempt by its id; the newest without it.")] = None,
    json: given.JsonFlag = False,
) -> None:
    """Print the program's output.

    With --json each line is a JSON object.

    Examples:

        mlcd logs digits-3f2a1c -f
        mlcd logs digits-3f2a1c --node 1
    """
    try:
        for line in get_client(context).logs(job, follow=follow, node=node, task=task):
            if json:
                show_json_line({"line": line})
            else:
                sys.stdout.write(f"{line}\n")
                sys.stdout.flush()
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def move(
    context: typer.Context,
    job: given.JobId,
    instance: Annotated[str | None, typer.Option(help="On machines of this type.")] = None,
    nodes: Annotated[int | None, typer.Option(help="On so many of them.", min=1)] = None,
    batch_size: Annotated[int | None, typer.Option(help="With this global batch size.", min=1)] = None,
    yes: given.YesFlag = False,
    json: given.JsonFlag = False,
) -> None:
    """Continue a training on another deployment from its checkpoint; what is not named stays as it is.

    Prints what would be lost, and asks for confirmation on a terminal.

    Examples:

        mlcd move digits-3f2a1c --nodes 2
        mlcd move digits-3f2a1c --batch-size 128
    """
    client = get_client(context)
    before = client.view(job)
    lost = stopping_loses(before) if before.record.state is JobState.TRAINING else ""
    _ask_first(f"It is stopped here to go on there. {lost}" if lost else "", "Move it?", yes)
    view = client.move(job, instance=instance, nodes=nodes, batch_size=batch_size)
    if json:
        show_json(view)
    else:
        note(f"{view.record.id} goes on at {view.record.move_asked} as soon as its state is saved.")


def stop(
    context: typer.Context,
    job: given.JobId,
    wait: Annotated[bool, typer.Option(help="Wait until nothing of the job runs.")] = True,
    yes: given.YesFlag = False,
    json: given.JsonFlag = False,
) -> None:
    """Save a checkpoint and stop a job; `mlcd resume` continues from there.

    Prints what would be lost, and asks for confirmation on a terminal.

    Examples:

        mlcd stop digits-3f2a1c
    """
    client = get_client(context)
    _ask_first(stopping_loses(client.view(job)), "Stop it?", yes)
    view = client.stop(job)
    if wait:
        for seen in client.follow(view.record.id):
            view = seen
    show_json(view) if json else show(*ending(view))


def resume(
    context: typer.Context,
    job: given.JobId,
    budget: Annotated[float | None, typer.Option(help="The new total budget in US dollars.", min=0.0)] = None,
    deadline: Annotated[str | None, typer.Option(help="The new deadline: 2h from now, or a clock time.")] = None,
    yes: given.YesFlag = False,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Start the job and return.")] = False,
    json: given.JsonFlag = False,
) -> None:
    """Continue a job that waits, was stopped, paused at a limit, or failed.

    Nothing that was paid is paid again.

    Examples:

        mlcd resume digits-3f2a1c --yes
        mlcd resume digits-3f2a1c --budget 30
    """
    client = get_client(context)
    told = max((event.number for event in client.events(job)), default=0)
    view = client.resume(job, budget_usd=budget, deadline=deadline)
    if yes:
        client.confirm(view.record.id)
    if detach:
        view = client.view(view.record.id)
        words = " ".join(part for part in (view.record.id, "goes on", goes_on_from(view)) if part)
        show_json(view) if json else show(f"{words}.", *what_next(view))
        return
    accepted = view.record.plan is not None and view.record.confirmed  # then it was told before
    following = JobFollower(client, view.record.id, as_json=json, after=told, plan_shown=accepted)
    raise typer.Exit(carry_out(client, following))


def report(
    context: typer.Context,
    job: given.JobId,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Where to write it.")] = None,
    json: given.JsonFlag = False,
) -> None:
    """Write a job's report as one HTML file that works offline.

    With --json its data go to standard output.

    Examples:

        mlcd report digits-3f2a1c -o report.html
        mlcd report digits-3f2a1c --json
    """
    client = get_client(context)
    if json:
        show_json(client.story(job))
    if not json or output is not None:
        path = client.report(job, output)
        note(f"Written to {path}") if json else show(str(path))


def _ask_first(lost: str, question: str, yes: bool) -> None:
    """Say what would be lost, and leave if someone says that it must not be."""
    if lost:
        note(lost, "yellow")
    if lost and interactive() and not yes and not typer.confirm(question):
        raise typer.Exit(0)


def _show_all(views: list[JobView]) -> None:
    if views:
        show(jobs_table(views))
    else:
        show("No jobs yet. `mlcd run job.yaml` starts one.")


def _show_one(view: JobView) -> None:
    record = view.record
    show(
        Text.assemble(printable(f"{record.job.name} ({record.id})", "bold"), ": ", state_text(view)),
        *lines(
            ("Goal", goal_in_words(view.goal)),
            ("So far", totals(view.goal, view.spent.seconds, view.spent.usd)),
        ),
    )
    if record.error:
        show(printable(record.error, "red"))
    if record.started and record.state.active and not view.controlled:
        show(printable(NO_CONTROLLER, "yellow"))
    if view.trials or record.plan is not None:
        show("", plan_lines(view) if record.plan is not None else trials_lines(view))
    share = training_share(view)
    if record.state is JobState.SEARCHING:
        show("", probe_words(view))
    elif record.state is JobState.TRAINING:
        show("", training_picture(view, share or 0.0))
    elif view.run.attempts:
        show("", *facts(view), "", bill_table(view))
    show("", *what_next(view))
