"""What the Scavenger paper claims holds on its testbed and in real descent: the direction of every claim.

What does not hold stays here as an expected failure with its reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import pytest
from _pytest.mark.structures import ParameterSet

from mlcd_bench.preset_runner import Finding, run_preset
from mlcd_bench.scavenger_curves import SCAVENGER_FIGURES

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


def every_claim() -> Iterator[ParameterSet]:
    """All claims that have a direction; those that do not hold here as expected failures."""
    for name, make in SCAVENGER_FIGURES.items():
        for claim in make().claims:
            if claim.holds is not None:
                reason = NOT_HERE.get((name, claim.text))
                marks = [] if reason is None else [pytest.mark.xfail(strict=True, reason=reason)]
                yield pytest.param(name, claim.text, marks=marks, id=f"{name}: {claim.text}")


@pytest.fixture(scope="module")
def findings_of() -> Callable[[str], dict[str, Finding]]:
    """What a preset finds, by claim; each is run once."""

    @cache
    def found(name: str) -> dict[str, Finding]:
        return {finding.claim: finding for finding in run_preset(SCAVENGER_FIGURES[name](), seeds=5, jobs=0).claims}

    return found


@pytest.mark.parametrize(("name", "claim"), list(every_claim()))
def test_the_papers_claim_holds(findings_of: Callable[[str], dict[str, Finding]], name: str, claim: str) -> None:
    finding = findings_of(name)[claim]
    assert finding.holds, f"{finding.claim}: {finding.ours}; the paper: {finding.paper}"


def test_every_expected_failure_is_a_claim() -> None:
    claims = {(name, claim.text) for name, make in SCAVENGER_FIGURES.items() for claim in make().claims}
    assert set(NOT_HERE) <= claims


def test_there_is_a_preset_for_every_figure() -> None:
    assert list(SCAVENGER_FIGURES) == [*(f"scavenger-fig{number}" for number in range(1, 13)), "scavenger-overhead"]
