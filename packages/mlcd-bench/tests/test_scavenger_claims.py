"""What Scavenger's paper claims of its search holds on the synthetic testbed, at five seeds."""

from __future__ import annotations

import pytest

from mlcd_bench.preset_runner import Finding, run_preset
from mlcd_bench.presets import find_preset
from mlcd_bench.scavenger_figures import RESNET_18, SCAVENGER, scavenger_case

CLAIMS = [(name, claim.text) for name, make in SCAVENGER.items() for claim in make().claims]


@pytest.fixture(scope="module")
def findings() -> dict[tuple[str, str], Finding]:
    return {
        (name, finding.claim): finding
        for name in SCAVENGER
        for finding in run_preset(find_preset(name), seeds=5, jobs=0).claims
    }


@pytest.mark.slow
@pytest.mark.parametrize("claim", CLAIMS, ids=" ".join)
def test_the_papers_claim_holds(findings: dict[tuple[str, str], Finding], claim: tuple[str, str]) -> None:
    finding = findings[claim]
    assert finding.holds, f"{finding.claim}: {finding.ours}; the paper: {finding.paper}"


def test_a_step_of_the_testbed_takes_as_long_as_the_papers() -> None:
    """Twenty steps: 17 to 35 s."""
    speeds = scavenger_case(RESNET_18).speeds
    steps = [(deployment.batch_size or 1) / speed for deployment, speed in speeds.items()]
    assert 0.5 < min(steps) < max(steps) < 4.0
