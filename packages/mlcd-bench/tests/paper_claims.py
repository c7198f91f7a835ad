"""The claims of a paper's presets as parameters of a test, and what the papers' page says of them; test_mlcd_claims.py uses both."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet

from mlcd_bench.claims import Averages
from mlcd_bench.presets.preset import Preset
from mlcd_bench.presets.runner import Findings, run_preset

SEEDS = 5
PAGE = Path(__file__).resolve().parents[3] / "docs" / "explanation" / "papers.md"
DRIFT = (
    0.15  # of a number on the page: processors round differently, and long searches come to differ by more than that
)
HERE = 4  # the column
_NUMBER = re.compile(r"(?<![\w.])[−-]?\d+(?:,\d{3})*(?:\.\d+)?")
_COMMAND = re.compile(r"`mlcd bench --preset ([\w.-]+)`")
_LINK = re.compile(r"\(?\[[^]]*\]\([^)]*\)\)?")

Presets = Mapping[str, Callable[[], Preset]]
Reasons = Mapping[tuple[str, str], str]  # preset and claim: why it does not hold here
FindingsOf = Callable[[str], Findings]


def every_claim(presets: Presets, not_here: Reasons) -> Iterator[ParameterSet]:
    """All claims that have a direction; those that do not hold here as expected failures."""
    for name, make in presets.items():
        for claim in make().claims:
            if claim.holds is not None:
                reason = not_here.get((name, claim.text))
                marks = [] if reason is None else [pytest.mark.xfail(strict=True, reason=reason)]
                yield pytest.param(name, claim.text, marks=marks, id=f"{name}: {claim.text}")


def claims_of(presets: Presets) -> set[tuple[str, str]]:
    """Every preset with each of its claims."""
    return {(name, claim.text) for name, make in presets.items() for claim in make().claims}


def findings_by_preset(presets: Presets) -> FindingsOf:
    """What a preset finds; each is run once."""

    @cache
    def found(name: str) -> Findings:
        return run_preset(presets[name](), SEEDS, jobs=0)

    return found


def check(findings: Findings, claim: str) -> None:
    """The direction of the claim holds."""
    finding = next(each for each in findings.claims if each.claim == claim)
    assert finding.holds, f"{finding.claim}: {finding.ours}; the paper: {finding.paper}"


def check_page(name: str, findings: Findings) -> None:
    """Each number that the page has for the preset is one that it finds, or nearly."""
    told = numbers_of_page(name)
    found = list(_numbers_found(findings))
    strange = [number for number in told if not any(_alike(number, each) for each in found)]
    assert told, f"{PAGE.name} has no numbers of {name}"
    assert not strange, f"{PAGE.name} says {strange} of {name}, which it does not find"


def numbers_of_page(name: str) -> list[float]:
    """In the column of what is found here; a row without a command goes on with the one above."""
    command, numbers = "", []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|") or len(cells) <= HERE:
            continue
        named = _COMMAND.fullmatch(cells[1])
        command = (cells[1] and (named[1] if named else cells[1])) or command
        numbers += _numbers(_LINK.sub("", cells[HERE])) if command == name else []
    return numbers


def _numbers_found(findings: Findings) -> Iterator[float]:
    """Of the claims, and of the table of strategies."""
    for finding in findings.claims:
        for number in _numbers(f"{finding.ours} {finding.claim}"):
            yield from (number, 100 * (number - 1))  # 1.13 × as long: 13 % over
    for row in findings.rows:
        yield from (row.total_hours, row.total_usd, row.probes, row.ratio, 100 * row.broken_share, _useless(row))


def _useless(row: Averages) -> float:
    """Probes that found nothing better."""
    return row.probes - row.improving


def _numbers(text: str) -> list[float]:
    return [float(number.replace("−", "-").replace(",", "")) for number in _NUMBER.findall(text)]


def _alike(told: float, found: float) -> bool:
    return abs(told - found) <= DRIFT * abs(found) + 1e-9
