"""What the SMLT paper claims holds on the synthetic Lambda: the direction of every claim, at five seeds.

What does not hold stays here as an expected failure with its reason; docs/explanation/papers.md has the numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import pytest
from _pytest.mark.structures import ParameterSet

from mlcd_bench.preset_runner import Finding, run_preset
from mlcd_bench.smlt import SMLT

SEEDS = 5

_DEARER = (
    "A vCPU of a function costs 0.104 USD an hour, one of a c5 0.043, and machines exchange gradients over wider links. Where nothing "
    "waits, machines of the same processors cost a quarter, however well functions are chosen."
)

NOT_HERE: dict[tuple[str, str], str] = {
    ("smlt-fig11a", "MLCD's cost ÷ SMLT's"): _DEARER,
    ("smlt-fig11a", "cost on machines (IaaS) ÷ SMLT's"): _DEARER,
}


def every_claim() -> Iterator[ParameterSet]:
    """All claims that have a direction; those that do not hold here as expected failures."""
    for name, make in SMLT.items():
        for claim in make().claims:
            if claim.holds is not None:
                reason = NOT_HERE.get((name, claim.text))
                marks = [] if reason is None else [pytest.mark.xfail(strict=True, reason=reason)]
                yield pytest.param(name, claim.text, marks=marks, id=f"{name}: {claim.text}")


@pytest.fixture(scope="module")  # so that one worker runs each preset once
def findings_of() -> Callable[[str], dict[str, Finding]]:
    """What a preset finds, by claim; each is run once."""

    @cache
    def found(name: str) -> dict[str, Finding]:
        return {finding.claim: finding for finding in run_preset(SMLT[name](), SEEDS, jobs=0).claims}

    return found


@pytest.mark.slow
@pytest.mark.parametrize(("name", "claim"), list(every_claim()))
def test_the_papers_claim_holds(findings_of: Callable[[str], dict[str, Finding]], name: str, claim: str) -> None:
    finding = findings_of(name)[claim]
    assert finding.holds, f"{finding.claim}: {finding.ours}; the paper: {finding.paper}"


def test_every_expected_failure_is_a_claim() -> None:
    claims = {(name, claim.text) for name, make in SMLT.items() for claim in make().claims}
    assert set(NOT_HERE) <= claims
