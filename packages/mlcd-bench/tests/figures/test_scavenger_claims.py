"""What Scavenger's paper claims of its search holds on the synthetic testbed, at five seeds."""

from __future__ import annotations

import pytest

from mlcd_bench.figures.scavenger.searches import RESNET_18, SCAVENGER, scavenger_case
from paper_claims import FindingsOf, check, check_page, every_claim, findings_by_preset


@pytest.fixture(scope="module")  # so that one worker runs each preset once
def findings_of() -> FindingsOf:
    return findings_by_preset(SCAVENGER)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "claim"), list(every_claim(SCAVENGER, {})))
def test_the_papers_claim_holds(findings_of: FindingsOf, name: str, claim: str) -> None:
    check(findings_of(name), claim)


@pytest.mark.slow
@pytest.mark.parametrize("name", SCAVENGER)
def test_the_page_has_the_numbers_that_are_found(findings_of: FindingsOf, name: str) -> None:
    check_page(name, findings_of(name))


def test_a_step_of_the_testbed_takes_as_long_as_the_papers() -> None:
    """Twenty steps: 17 to 35 s."""
    speeds = scavenger_case(RESNET_18).speeds
    steps = [(deployment.batch_size or 1) / speed for deployment, speed in speeds.items()]
    assert 0.5 < min(steps) < max(steps) < 4.0
