"""`curves`: what training would take on every deployment of a job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.table import Table

from mlcd.cli import options as given
from mlcd.cli.screen import note, printable, show, show_json
from mlcd.cli.session import get_client
from mlcd.cli.tables import table
from mlcd.core.units import show_duration, show_usd
from mlcd.reporting.curve import Curve, read_price
from mlcd.reporting.training_estimates import TrainingEstimate


def curves(
    context: typer.Context,
    job: given.JobId,
    price: Annotated[
        str, typer.Option(help="How machines are charged: instance, second:60, vcpu-gib:0.03,0.004.")
    ] = "instance",
    everything: Annotated[bool, typer.Option("--all", help="Every deployment, not only the front.")] = False,
    json: given.JsonFlag = False,
) -> None:
    """Show time against cost over a job's deployments: the Pareto front and its knee.

    Measured where it was tried; where not, foretold by the job's performance models, or by its strategy while they
    have seen too little. The band holds nineteen trainings in twenty, and is the plan's own.

    Examples:

        mlcd curves digits-3f2a1c
        mlcd curves digits-3f2a1c --all --price vcpu-gib:0.03,0.004 --json
    """
    curve = get_client(context).curve(job, read_price(price))
    if json:
        show_json(curve)
    elif not curve.points:
        note("Nothing is known of any deployment yet.")
    else:
        show(_curve_table(curve, curve.points if everything else curve.front))


def _curve_table(curve: Curve, points: Sequence[TrainingEstimate]) -> Table:
    made = table(
        "",
        "deployment",
        "nodes",
        "batch",
        "training",
        "band",
        "for",
        "known by",
        right=("nodes", "batch", "training", "for"),
    )
    front = set(curve.front)
    for point in points:
        where = point.deployment
        made.add_row(
            "knee" if point == curve.knee else "front" if point in front else "",
            printable(where.offer.name),
            f"{where.nodes}",
            "" if where.batch_size is None else f"{where.batch_size}",
            show_duration(point.seconds),
            f"{show_duration(point.low_seconds)}–{show_duration(point.high_seconds)}",
            show_usd(point.usd),
            point.known_by,
        )
    return made
