"""The claims of a paper's presets as parameters of a test; tests/test_mlcd_claims.py shows how they are used."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache

import pytest
from _pytest.mark.structures import ParameterSet

from mlcd_bench.preset_runner import Finding, run_preset
from mlcd_bench.presets import Preset

SEEDS = 5

Presets = Mapping[str, Callable[[], Preset]]
Reasons = Mapping[tuple[str, str], str]  # preset and claim: why it does not hold here
FindingsOf = Callable[[str], dict[str, Finding]]


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


def findings_by_claim(presets: Presets) -> FindingsOf:
    """What a preset finds, by claim; each is run once."""

    @cache
    def found(name: str) -> dict[str, Finding]:
        return {finding.claim: finding for finding in run_preset(presets[name](), SEEDS, jobs=0).claims}

    return found


def check(finding: Finding) -> None:
    """The direction of the claim holds."""
    assert finding.holds, f"{finding.claim}: {finding.ours}; the paper: {finding.paper}"
