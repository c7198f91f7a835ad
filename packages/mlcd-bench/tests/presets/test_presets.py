"""The paper's figures on the synthetic testbed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mlcd_bench.cases import Case
from mlcd_bench.claims import Averages
from mlcd_bench.figures.mlcd import testbed
from mlcd_bench.figures.mlcd.figures import MLCD
from mlcd_bench.figures.smlt.figures import SMLT
from mlcd_bench.figures.smlt.testbed import BERT_SMALL, functions_case
from mlcd_bench.figures.smlt.workflows import adaptive, any_fixed, best_fixed, oracle
from mlcd_bench.presets.preset import find_preset
from mlcd_bench.presets.runner import Finding, Findings, run_preset
from mlcd_bench.protocol import set_problem
from mlcd_bench.strategies import parse_strategy
from paper_claims import check_page, numbers_of_page


def speed(case: Case, key: str) -> float:
    return next(speed for deployment, speed in case.speeds.items() if deployment.key == f"{key}@us-east-1")


def test_a_number_of_the_papers_page_that_has_drifted_is_found() -> None:
    assert numbers_of_page("fig9") == [13, 1.22, 1.72]
    row = Averages("ResNet", "convbo", 6.9, 231.0, 1.8, 79.0, 4.0, 0.0, 0.0, 2.2, 1.72, 4.0, 57.0)
    cost, total = Finding("cost", "16 %", "13%", True), Finding("total", "about 1", "1.22", True)
    check_page("fig9", Findings((row,), (cost, total)))
    with pytest.raises(AssertionError, match=r"says \[1\.22\] of fig9"):
        check_page("fig9", Findings((row,), (cost, replace(total, ours="1.50"))))
    with pytest.raises(AssertionError, match="has no numbers of fig99"):
        check_page("fig99", Findings((), ()))


def test_there_is_a_preset_for_every_figure_with_numbers() -> None:
    """Figures 4 and 6 to 8 are drawings of how the search and the system work."""
    assert list(MLCD) == [f"fig{number}" for number in (1, 2, 3, 5, *range(9, 20))]


@pytest.mark.parametrize("name", MLCD)
def test_every_limit_can_be_kept_and_every_strategy_exists(name: str) -> None:
    for contest in find_preset(name).contests:
        for text in contest.strategies:
            parse_strategy(text)
        least = set_problem(contest.case, contest.scenario, contest.hours, 1.0)
        assert least is not None
        assert contest.limit is None or (least.limit is not None and contest.limit >= least.limit)


def test_there_is_a_preset_for_every_figure_of_the_smlt_paper_that_can_be_played() -> None:
    """Figures 5 and 6 are drawings; 7 and 8 are measured by benchmarks/function_sync."""
    assert list(SMLT) == [f"smlt-fig{number}" for number in (1, 2, 3, 4, 9, 10, "11a", "11b", 12, 13)]


@pytest.mark.parametrize("name", SMLT)
def test_every_limit_of_the_smlt_paper_can_be_kept(name: str) -> None:
    preset = find_preset(name)
    for contest in preset.contests:
        least = set_problem(contest.case, contest.scenario, contest.hours, 1.0)
        assert least is not None
        assert contest.limit is None or (least.limit is not None and contest.limit >= least.limit)
    for course in preset.courses:
        parse_strategy(course.strategy)
        assert all(stage.problem.feasible for stage in course.stages)
        assert len({stage.label for stage in course.stages}) == len(course.stages)


def test_functions_scale_out_to_a_peak_and_synchronise_best_by_shards() -> None:
    ours, siren = (functions_case(replace(BERT_SMALL, exchange=way)).speeds for way in ("hierarchical", "objects"))
    sizes = [speed for each, speed in ours.items() if each.offer.instance.name == "fn-10240mb"]
    peak = sizes.index(max(sizes))
    assert 0 < peak < len(sizes) - 1
    many = [each for each in ours if each.nodes >= 8]
    assert all(ours[each] > siren[each] for each in many)


@pytest.mark.slow
def test_a_changing_workflow_counts_its_searches() -> None:
    preset = find_preset("smlt-fig12")
    findings = run_preset(preset, seeds=1, jobs=0)
    told = {finding.claim: finding.ours for finding in findings.claims}
    assert told["phases that are searched"].endswith("of 5")
    assert all(row.total_usd > row.search_usd > row.lost_usd > 0 for row in findings.rows)
    best = oracle(preset.courses[0].stages)
    assert best < adaptive({(row.contest, row.strategy): row for row in findings.rows}, preset.courses[0].stages)


def test_no_fixed_allocation_is_cheaper_than_an_oracle() -> None:
    stages = find_preset("smlt-fig13").courses[0].stages
    assert oracle(stages) < best_fixed(stages) < any_fixed(stages)


def test_machines_scale_out_to_a_peak_and_decline() -> None:
    speeds = list(testbed.paper_case(testbed.RESNET, ("c5.4xlarge",)).speeds.values())
    peak = speeds.index(max(speeds))
    assert 5 < peak < 60
    assert speeds[-1] < 0.8 * speeds[peak]


def test_char_rnn_trains_fastest_on_ten_c5_4xlarge_for_the_same_money() -> None:
    """Fig. 1(b) of the paper."""
    case = testbed.paper_case(testbed.CHAR_RNN)
    best = speed(case, "10xc5.4xlarge")
    assert best > speed(case, "9xp2.xlarge")
    assert best > 1.5 * speed(case, "40xc5.xlarge")


def test_what_does_not_fit_the_nodes_together_fails() -> None:
    case = testbed.paper_case(testbed.ZERO_20B, ("p3.16xlarge",))
    failed = [deployment.nodes for deployment, found in case.truth if found is None]
    assert failed == [1, 2]


def test_a_preset_is_shown_beside_what_the_paper_says() -> None:
    findings = run_preset(find_preset("fig15"), seeds=1, jobs=0)
    assert {row.strategy for row in findings.rows} == {"heterbo", "convbo", "auto"}
    assert findings.claims[0].cells[:2] == ("Char-RNN: HeterBO's probes", "9")
    assert set(findings.data) == {"rows", "claims"}


def test_a_figure_without_a_search_has_claims_and_curves() -> None:
    preset = find_preset("fig3")
    findings = run_preset(preset, seeds=1, jobs=0)
    assert findings.rows == ()
    assert all(finding.holds for finding in findings.claims)
    assert max(map(len, (curve.nodes for curve in preset.curves))) == testbed.CPU_NODES
