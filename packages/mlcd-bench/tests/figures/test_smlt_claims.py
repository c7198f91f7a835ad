"""What the SMLT paper claims holds on the synthetic Lambda: the direction of every claim, at five seeds.

What does not hold stays here as an expected failure with its reason; docs/explanation/papers.md has the numbers.
"""

from __future__ import annotations

import pytest

from mlcd_bench.figures.smlt.figures import SMLT
from paper_claims import FindingsOf, check, check_page, claims_of, every_claim, findings_by_preset

_DEARER = (
    "A vCPU of a function costs 0.104 USD an hour, one of a c5 0.043, and machines exchange gradients over wider links. Where nothing "
    "waits, machines of the same processors cost a quarter, however well functions are chosen."
)

NOT_HERE: dict[tuple[str, str], str] = {
    ("smlt-fig11a", "MLCD's cost ÷ SMLT's"): _DEARER,
    ("smlt-fig11a", "cost on machines (IaaS) ÷ SMLT's"): _DEARER,
}


@pytest.fixture(scope="module")  # so that one worker runs each preset once
def findings_of() -> FindingsOf:
    return findings_by_preset(SMLT)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "claim"), list(every_claim(SMLT, NOT_HERE)))
def test_the_papers_claim_holds(findings_of: FindingsOf, name: str, claim: str) -> None:
    check(findings_of(name), claim)


@pytest.mark.slow
@pytest.mark.parametrize("name", SMLT)
def test_the_page_has_the_numbers_that_are_found(findings_of: FindingsOf, name: str) -> None:
    check_page(name, findings_of(name))


def test_every_expected_failure_is_a_claim() -> None:
    assert set(NOT_HERE) <= claims_of(SMLT)
