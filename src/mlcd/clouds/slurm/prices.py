"""What a site asks for its nodes: a file of its own, for Slurm knows no prices."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mlcd.errors import UserError

PER = ("node", "core", "gpu")
ANY = "*"  # partitions without a line of their own


@dataclass(frozen=True)
class Price:
    """One line of the list: what an hour of one of these costs."""

    partition: str
    per: str
    usd: float


@dataclass(frozen=True)
class Prices:
    """The list; several lines for a partition add up."""

    lines: Sequence[Price] = ()

    def knows(self, partition: str) -> bool:
        """Whether there is a price for it."""
        return bool(self._of(partition))

    def usd_per_hour(self, partition: str, cpus: int, gpus: int) -> float:
        """Of one node; nothing where the list does not name it."""
        counts = {"node": 1, "core": cpus, "gpu": gpus}
        return sum(line.usd * counts[line.per] for line in self._of(partition))

    def _of(self, partition: str) -> list[Price]:
        own = [line for line in self.lines if line.partition == partition]
        return own or [line for line in self.lines if line.partition == ANY]


def read_prices(file: str, usd_per_unit: float) -> Prices:
    """From a CSV with the columns partition, per and price; no file: all is free of charge."""
    if not file:
        return Prices()
    try:
        with Path(file).expanduser().open(newline="", encoding="utf-8-sig") as stream:
            return Prices([_line(row, usd_per_unit) for row in csv.DictReader(stream)])
    except (OSError, KeyError, ValueError, TypeError, AttributeError) as error:  # the last two: a short line
        raise UserError(
            f"The price list {file} cannot be read: {error!r}",
            f"Give it the columns partition,per,price; `per` is one of {', '.join(PER)}.",
        ) from error


def _line(row: dict[str, str], usd_per_unit: float) -> Price:
    per, price = row["per"].strip(), float(row["price"]) * usd_per_unit
    if per not in PER or not 0 <= price < float("inf"):
        raise ValueError(f"{row['partition']}: {row['price']} per {per}")
    return Price(row["partition"].strip(), per, price)
