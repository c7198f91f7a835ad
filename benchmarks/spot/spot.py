"""Replays three years of spot prices: what training under a deadline costs on spot machines, and whether it is kept.

    python benchmarks/spot/spot.py ../shared/prices

The rule is the one that runs follow (mlcd.adapt.spot): on spot machines for as long as there is slack, then on demand.
Prices are those of the day and the zone; each launch takes the cheapest zone. Machines are taken back at random, at a
rate per hour, and whenever the price of their zone rises by a tenth or more from one record to the next. After that
spot machines may be sold out for a while; whoever waits for them pays nothing and loses time.
"""

from __future__ import annotations

import csv
import gzip
import random
import sys
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from mlcd.adapt.spot import slack_seconds

HOUR = 3600.0
STEP_SECONDS = 60.0
RESTART_SECONDS = 300.0  # boot, setup, load
LOST_SECONDS = 300.0  # of work since the last checkpoint, where there was no notice; half of the time there is none
RISE = 1.1  # a zone whose price rises that much takes its machines back
TYPES = ("c5.4xlarge", "g4dn.xlarge", "g5.xlarge", "p3.2xlarge", "p3.8xlarge")

Series = tuple[list[float], list[float]]  # moments, prices


@dataclass(frozen=True)
class Case:
    """A training: how long it takes on demand, its deadline, how often machines are taken back, for how long sold out."""

    work_seconds: float
    deadline_seconds: float
    losses_per_hour: float
    sold_out_seconds: float = 0.0  # mean


@dataclass(frozen=True)
class Outcome:
    """How it went."""

    usd: float
    seconds: float
    losses: int
    on_demand_share: float


def main(folder: Path) -> None:
    """Print the table of the README."""
    spot, listed = (
        read_spot(folder / "aws_spot_history.csv.gz"),
        read_list(folder / "aws_ondemand_history.csv"),
    )
    print(
        "| type | work | deadline | losses/h | sold out | runs | cost on spot, deadline kept | missed | always spot | missed |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name in TYPES:
        for case in (
            Case(12 * HOUR, 18 * HOUR, 0.05),
            Case(12 * HOUR, 14 * HOUR, 0.3),
            Case(12 * HOUR, 15 * HOUR, 0.3, HOUR),
            Case(48 * HOUR, 60 * HOUR, 0.3, HOUR),
            Case(48 * HOUR, 52 * HOUR, 1.0, HOUR / 2),
        ):
            print(row(name, case, spot[name], listed[name]))


def row(name: str, case: Case, zones: dict[str, Series], listed: Series) -> str:
    """One line: a start every week of the history."""
    starts = weekly(zones, case.deadline_seconds)
    careful = [play(case, zones, listed, start, seed, True) for seed, start in enumerate(starts)]
    careless = [play(case, zones, listed, start, seed, False) for seed, start in enumerate(starts)]
    plain = sum(case.work_seconds / HOUR * price(listed, start) for start in starts)
    missed = [sum(one.seconds > case.deadline_seconds for one in ones) for ones in (careful, careless)]
    shares = [sum(one.usd for one in ones) / plain for ones in (careful, careless)]
    return (
        f"| {name} | {case.work_seconds / HOUR:g} h | {case.deadline_seconds / HOUR:g} h | {case.losses_per_hour:g} "
        f"| {case.sold_out_seconds / 60:g} min | {len(starts)} | {shares[0]:.0%} of on demand | {missed[0]} | {shares[1]:.0%} | {missed[1]} |"
    )


def play(case: Case, zones: dict[str, Series], listed: Series, start: float, seed: int, careful: bool) -> Outcome:
    """One training, minute by minute."""
    dice = random.Random(seed)
    done, usd, now, losses, on_demand_seconds = 0.0, 0.0, start, 0, 0.0
    ready_at, rented_at, zone, spot = start + RESTART_SECONDS, start, cheapest(zones, start), True
    while done < case.work_seconds:
        left, rest = start + case.deadline_seconds - now, case.work_seconds - done
        if spot and careful and slack_seconds(left, rest, RESTART_SECONDS) <= LOST_SECONDS + STEP_SECONDS:
            spot, ready_at = False, now + RESTART_SECONDS
        if spot and now >= rented_at and taken(dice, case, zones[zone], now):
            losses += 1
            done = max(0.0, done - (LOST_SECONDS if dice.random() < 0.5 else 0.0))
            away = dice.expovariate(1.0 / case.sold_out_seconds) if case.sold_out_seconds else 0.0
            zone, rented_at = cheapest(zones, now), now + away
            ready_at = rented_at + RESTART_SECONDS
        if now < rented_at and spot:
            now += STEP_SECONDS
            continue
        usd += (price(zones[zone], now) if spot else price(listed, now)) * STEP_SECONDS / HOUR
        on_demand_seconds += 0.0 if spot else STEP_SECONDS
        done += STEP_SECONDS if now >= ready_at else 0.0
        now += STEP_SECONDS
    return Outcome(usd, now - start, losses, on_demand_seconds / (now - start))


def taken(dice: random.Random, case: Case, zone: Series, now: float) -> bool:
    """Whether the machines are taken back in this minute."""
    at = bisect_right(zone[0], now) - 1
    crossed = at > 0 and now - zone[0][at] < STEP_SECONDS and zone[1][at] > RISE * zone[1][at - 1]
    return crossed or dice.random() < case.losses_per_hour * STEP_SECONDS / HOUR


def cheapest(zones: dict[str, Series], now: float) -> str:
    return min(zones, key=lambda zone: price(zones[zone], now))


def price(series: Series, now: float) -> float:
    """The price in force at a moment; before the first record there is none to be had."""
    at = bisect_right(series[0], now) - 1
    return series[1][at] if at >= 0 else float("inf")


def weekly(zones: dict[str, Series], room: float) -> list[float]:
    first = min(series[0][0] for series in zones.values())
    last = max(series[0][-1] for series in zones.values()) - room
    return [first + 7 * 24 * HOUR * week for week in range(int((last - first) / (7 * 24 * HOUR)))]


def read_spot(file: Path) -> dict[str, dict[str, Series]]:
    """Type → zone → its prices."""
    found: dict[str, dict[str, Series]] = defaultdict(lambda: defaultdict(lambda: ([], [])))
    with gzip.open(file, "rt", newline="") as stream:
        for line in csv.DictReader(stream):
            add(found[line["instance_type"]][line["az_id"]], line["date"], line["spot_usd_h"])
    return found


def read_list(file: Path) -> dict[str, Series]:
    """Type → its list prices."""
    found: dict[str, Series] = defaultdict(lambda: ([], []))
    with file.open(newline="") as stream:
        for line in csv.DictReader(stream):
            add(found[line["instance_type"]], line["date"], line["ondemand_usd_h"])
    return found


def add(series: Series, date: str, usd: str) -> None:
    if usd and float(usd) > 0:
        series[0].append(datetime.fromisoformat(date).replace(tzinfo=UTC).timestamp())
        series[1].append(float(usd))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
