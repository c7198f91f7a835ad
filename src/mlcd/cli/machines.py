"""`offers`, `check` and `sweep`: machines that could be rented, would be tried, or were forgotten."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mlcd.cli import options as given
from mlcd.cli.screen import interactive, lines, note, show, show_json
from mlcd.cli.session import get_client, print_error
from mlcd.cli.tables import check_table, findings_table, offers_table, strays_table
from mlcd.clouds.accounts import check_cloud, is_cloud, listed_offers
from mlcd.core.goal import Goal
from mlcd.core.machines import Offer
from mlcd.core.units import show_duration, show_usd
from mlcd.core.view import Check, IncompleteSweepError, Stray
from mlcd.reporting.gauges import goal_in_words
from mlcd.settings import read_settings

if TYPE_CHECKING:
    from mlcd.client import ClientProtocol


class Order(StrEnum):
    """What a list of offers is sorted by."""

    PRICE = "price"
    VCPUS = "vcpus"
    MEMORY = "memory"
    GPUS = "gpus"
    NAME = "name"


_ORDERS: dict[Order, Callable[[Offer], tuple[float | str, ...]]] = {
    Order.PRICE: lambda offer: (offer.usd_per_hour,),
    Order.VCPUS: lambda offer: (offer.instance.vcpus, offer.usd_per_hour),
    Order.MEMORY: lambda offer: (offer.instance.memory_gib, offer.usd_per_hour),
    Order.GPUS: lambda offer: (float(offer.instance.gpus), offer.usd_per_hour),
    Order.NAME: lambda offer: (offer.instance.name,),
}


def offers(
    context: typer.Context,
    cloud: given.Cloud = None,
    gpus: Annotated[int, typer.Option(help="Fewest GPUs of a machine.", min=0)] = 0,
    max_price: Annotated[float | None, typer.Option(help="Highest price in US dollars per hour.", min=0.0)] = None,
    sort: Annotated[Order, typer.Option(help="The order.")] = Order.PRICE,
    trace: given.Trace = None,
    workload: given.Workload = None,
    prices: Annotated[
        Path | None,
        typer.Option(help="List what is in a price list: a CSV of yours, or a catalog of SkyPilot's."),
    ] = None,
    json: given.JsonFlag = False,
) -> None:
    """List the machines for sale.

    Examples:

        mlcd offers
        mlcd offers --gpus 1 --max-price 2 --sort gpus
        mlcd offers --prices ~/.sky/catalogs/v7/azure/vms.csv
    """
    where = given.place(cloud, trace, workload, None)
    if prices is not None:
        found = listed_offers(read_settings(), prices, where.cloud or "")
    else:
        found = get_client(context).offers(where.cloud, where.options)
    kept = [offer for offer in found if offer.instance.gpus >= gpus and _affordable(offer, max_price)]
    kept.sort(key=_ORDERS[sort])
    if json:
        show_json(kept)
    else:
        show(offers_table(kept) if kept else f"None of {len(found)} offers is like that.")


def check(
    context: typer.Context,
    job: given.JobFile,
    cloud: given.Cloud = None,
    trace: given.Trace = None,
    workload: given.Workload = None,
    env: given.Env = None,
    secret: given.Secret = None,
    json: given.JsonFlag = False,
) -> None:
    """Read a job file and list what it would try; nothing is started and nothing spent.

    With the name of a cloud instead of a job file: check everything that the cloud needs.

    Examples:

        mlcd check job.yaml
        mlcd check aws
        mlcd check functions
    """
    if not job.exists() and is_cloud(str(job)):
        _check_cloud(str(job), json)
        return
    client = get_client(context)
    where = given.place(cloud, trace, workload, None)
    loaded = client.load(job, envs=given.variables(env), secrets=given.secrets(secret))
    found = client.check(loaded, cloud=where.cloud, cloud_options=where.options)
    if json:
        show_json(found)
        return
    for notice in found.notices:
        note(f"Note: {notice}", "yellow")
    _show_check(found)


def sweep(
    context: typer.Context,
    yes: given.YesFlag = False,
    others: Annotated[
        bool,
        typer.Option(
            "--others",
            help="Also end what another computer manages, and trainings whose controller died.",
        ),
    ] = False,
    json: given.JsonFlag = False,
) -> None:
    """List what costs money and belongs to no running job, and end it if you agree.

    Examples:

        mlcd sweep
        mlcd sweep --yes
    """
    client = get_client(context)
    strays, problem = _swept(client, yes, others)
    if not json:
        if strays or problem is None:
            show(strays_table(strays) if strays else "Nothing runs without a job.")
        if strays and not yes and interactive() and typer.confirm("End them?"):
            strays, problem = _swept(client, True, others)
            show(f"{sum(stray.ended for stray in strays)} asked to end.")
        elif strays and not yes:
            show("mlcd sweep --yes   end them")
    else:
        show_json(strays)
    if problem is not None:
        raise typer.Exit(print_error(problem))


def _swept(client: ClientProtocol, end: bool, others: bool) -> tuple[list[Stray], IncompleteSweepError | None]:
    """What was found, and why that is not all."""
    try:
        return client.sweep(end=end, others=others), None
    except IncompleteSweepError as error:
        return error.strays, error


def _check_cloud(name: str, as_json: bool) -> None:
    """Show what was found; 1 is the exit code where something is missing."""
    found = check_cloud(read_settings(), name)
    if as_json:
        show_json(found)
    else:
        show(findings_table(found))
    if not all(finding.ok for finding in found):
        raise typer.Exit(1)


def _affordable(offer: Offer, max_price: float | None) -> bool:
    return max_price is None or offer.usd_per_hour <= max_price


def _show_check(check: Check) -> None:
    job = check.job
    work = f"{job.work.samples:,.0f} samples" if job.work is not None else "until the program ends"
    until = f", until {job.work.until.metric} reaches {job.work.until.value:g}" if job.work and job.work.until else ""
    show(
        *lines(
            ("Job", job.name),
            ("Goal", goal_in_words(Goal(job.aim, job.deadline_seconds, job.budget_usd))),
            ("Work", work + until),
            ("Platform", job.platform),
            ("Search", f"{job.search.strategy} over {len(check.space)} deployments"),
            (
                "All probes",
                f"about {show_duration(sum(check.probe_seconds))} and {show_usd(sum(check.probe_usd))}, were all tried",
            ),
        ),
        "",
        check_table(check) if check.space else "No offer fits the job's resources.",
    )
