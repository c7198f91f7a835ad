"""What a task on EC2 has cost: each thing that AWS charges for is a line. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mlcd.clouds.ec2.prices import SpotHistory
from mlcd.clouds.remote.base import Machine
from mlcd.clouds.remote.files import Spec, State
from mlcd.core.machines import Deployment, Group
from mlcd.core.task import Charge

LEAST_SECONDS = 60.0  # that an instance is charged for
USD_PER_GIB_MONTH = 0.08  # gp3
MONTH_SECONDS = 730 * 3600.0
USD_PER_ADDRESS_HOUR = 0.005  # public IPv4
USD_PER_GB_OUT = 0.09  # to the internet, from the first byte: what is free each month is not counted on


def extras_usd_per_hour(disk_gib: float) -> float:
    """What one machine's disk and address cost."""
    return disk_gib * USD_PER_GIB_MONTH / MONTH_SECONDS * 3600.0 + USD_PER_ADDRESS_HOUR


def charges(
    spec: Spec, state: State, now: float, disk_gib: float, history: SpotHistory | None = None
) -> tuple[Charge, ...]:
    """The bill of a task at a moment, the machines first; spot machines by how their price went, where that is known."""
    lines = list(_lines(spec.deployment, state, now, disk_gib, history))
    return (lines[0], *(line for line in lines[1:] if line.usd))


def _lines(
    deployment: Deployment, state: State, now: float, disk_gib: float, history: SpotHistory | None
) -> Iterator[Charge]:
    rates = [deployment.offer_of(rank).usd_per_hour / 3600.0 for rank in range(len(state.machines))]
    spans = [_span(machine, state, now) for machine in state.machines]
    began = state.started_at if state.started_at is not None else now
    seconds = max(0.0, now - began)
    for group in rented(deployment, state):
        yield Charge(str(group), seconds, group.nodes * group.offer.usd_per_hour * seconds / 3600.0)
    short = [max(0.0, seconds - span) if seconds - span > 1.0 else 0.0 for span in spans]  # came later, or went earlier
    yield _of_each("machines given back early", [-each for each in short], rates)
    yield _spot_difference(state, spans, deployment.offer.usd_per_hour, history)
    kept = [_kept_seconds(machine, state, now) for machine in state.machines]
    yield _of_each("kept ready for the next task", kept, rates)
    paid = [max(0.0, machine.paid_until - machine.billed_from) for machine in state.machines]  # by an earlier task
    yield _of_each("paid while kept ready", [-each for each in paid], rates)
    missing = [_missing_seconds(machine, state, now) for machine in state.machines]
    yield _of_each(f"minimum of {LEAST_SECONDS:.0f} s each", missing, rates)
    whole = sum(spans) + sum(kept) - sum(paid)
    yield Charge("disk", whole, whole * disk_gib * USD_PER_GIB_MONTH / MONTH_SECONDS)
    yield Charge("public addresses", whole, whole * USD_PER_ADDRESS_HOUR / 3600.0)
    yield Charge("data out", 0.0, state.received_bytes / 1e9 * USD_PER_GB_OUT)


def rented(deployment: Deployment, state: State) -> Sequence[Group]:
    """The deployment's machines by type; where the last ones could not be had, without them."""
    if deployment.server_offer is None or len(state.machines) > deployment.workers:
        return deployment.groups
    return deployment.groups[:1]


def _of_each(what: str, seconds: Sequence[float], rates: Sequence[float]) -> Charge:
    """One line of seconds of several machines, each at its own price."""
    usd = sum(span * rate for span, rate in zip(seconds, rates, strict=True))
    return Charge(what, sum(seconds), usd)


def _span(machine: Machine, state: State, now: float) -> float:
    """How long the task has had a machine."""
    return max(0.0, state.billed_to.get(machine.id, now) - machine.billed_from)


def _kept_seconds(machine: Machine, state: State, now: float) -> float:
    """How long a machine waits, paid for in advance, for the next task."""
    if machine.id not in state.warm or state.warm_until is None:
        return 0.0
    return max(0.0, state.warm_until - now)


def _missing_seconds(machine: Machine, state: State, now: float) -> float:
    """What a machine's whole life lacks of the minimum, less what an earlier task has paid of that."""
    rented_at = machine.rented_at or machine.billed_from
    ends_at = machine.billed_from + _span(machine, state, now) + _kept_seconds(machine, state, now)
    paid = max(0.0, LEAST_SECONDS - (machine.paid_until - rented_at)) if machine.paid_until else 0.0
    return max(0.0, LEAST_SECONDS - (ends_at - rented_at)) - paid


def _spot_difference(state: State, spans: Sequence[float], usd_per_hour: float, history: SpotHistory | None) -> Charge:
    """Where the price of the machine's zone is not that of the offer, or did not stay what it was."""
    usd = sum(
        (_spot_price(machine, span, usd_per_hour, history) - usd_per_hour) * span / 3600.0
        for machine, span in zip(state.machines, spans, strict=True)
    )
    return Charge("spot price of the zone", 0.0, usd if abs(usd) > 1e-12 else 0.0)


def _spot_price(machine: Machine, span: float, offered: float, history: SpotHistory | None) -> float:
    """US dollars an hour on average over the machine's time: by the history, or as it was when it was rented."""
    begin = machine.billed_from
    seen = None if history is None else history.mean(machine.zone, begin, begin + span)
    return seen if seen is not None else float(machine.details.get("usd_per_hour", offered))
