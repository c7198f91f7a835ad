"""What the Scavenger paper claims holds on its testbed and in real descent: the direction of every claim.

What does not hold stays here as an expected failure with its reason.
"""

from __future__ import annotations

import pytest

from mlcd_bench.figures.scavenger.curves import SCAVENGER_FIGURES
from paper_claims import FindingsOf, check, check_page, claims_of, every_claim, findings_by_preset

NOT_HERE: dict[tuple[str, str], str] = {
    ("scavenger-fig8", "correlation of noise and epochs to the target, over batch sizes"): (
        "The problem is convex and its learning rate stays: it takes about as many steps with a large batch as with one "
        "half as large, so more epochs. The recorded jobs bert, cifar10 and ncf need more samples with a larger batch, too."
    ),
    ("scavenger-fig9", "correlation of noise and 1/√B"): (
        "Once it has settled the normalised noise of small batches is 1 and cannot grow: it bends where the paper draws a line."
    ),
    ("scavenger-fig10", "more workers are always faster"): (
        "At small batches the last four workers gain less than what nothing explains of a cluster."
    ),
    ("scavenger-fig11", "universal: mean error of the training time"): (
        "mlcd's universal model takes samples to grow with the batch, as with a learning rate that grows too; the testbed's "
        "trainings keep theirs, and their samples fall."
    ),
}


@pytest.fixture(scope="module")  # so that one worker runs each preset once
def findings_of() -> FindingsOf:
    return findings_by_preset(SCAVENGER_FIGURES)


@pytest.mark.parametrize(("name", "claim"), list(every_claim(SCAVENGER_FIGURES, NOT_HERE)))
def test_the_papers_claim_holds(findings_of: FindingsOf, name: str, claim: str) -> None:
    check(findings_of(name), claim)


@pytest.mark.parametrize("name", SCAVENGER_FIGURES)
def test_the_page_has_the_numbers_that_are_found(findings_of: FindingsOf, name: str) -> None:
    check_page(name, findings_of(name))


def test_every_expected_failure_is_a_claim() -> None:
    assert set(NOT_HERE) <= claims_of(SCAVENGER_FIGURES)


def test_there_is_a_preset_for_every_figure() -> None:
    assert list(SCAVENGER_FIGURES) == [*(f"scavenger-fig{number}" for number in range(1, 13)), "scavenger-overhead"]
