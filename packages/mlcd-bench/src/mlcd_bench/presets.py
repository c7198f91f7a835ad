"""The MLCD paper's own figures (section V) on the synthetic testbed, beside what the paper says.

The paper does not say how large its jobs are. They are set here so that its limits bind as they do there; all
else (limits, machines, models, probe times) is the paper's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from mlcd.errors import UserError, did_you_mean
from mlcd_bench import testbed
from mlcd_bench.cases import Case
from mlcd_bench.claims import (
    Claim,
    format_broken,
    format_hours,
    format_ratio,
    format_usd,
    most_times,
    of_heterbo,
    saving,
    share_of_convbo,
    times,
    total_usd,
    value_of,
)
from mlcd_bench.protocol import Problem, Rules, Scenario, set_problem
from mlcd_bench.testbed import Model, paper_case


@dataclass(frozen=True)
class Contest:
    """Strategies on one job under one limit; those in `favoured` search a narrowed space."""

    label: str
    case: Case
    scenario: Scenario
    hours: float  # of the fastest training
    strategies: tuple[str, ...]
    limit: float | None = None  # hours or dollars
    favoured: tuple[tuple[str, tuple[str, ...]], ...] = ()  # strategy, the only instance types it looks at
    rules: Rules = Rules()


@dataclass(frozen=True)
class Preset:
    """One figure of the paper."""

    name: str
    title: str
    contests: tuple[Contest, ...]
    claims: tuple[Claim, ...]


def set_contest(contest: Contest) -> Problem:
    """The contest's job under its limit; the slack is what the limit makes it."""
    least = set_problem(contest.case, contest.scenario, contest.hours, 1.0)
    if least is None:
        raise UserError(f"{contest.label} has no job.")
    if contest.limit is None or least.limit is None:
        return least
    return replace(least, slack=contest.limit / least.limit)


def find_preset(name: str) -> Preset:
    """The figure of that name."""
    from mlcd_bench.smlt import SMLT  # which is made of contests, too

    known = {**PRESETS, **SMLT}
    if name not in known:
        raise UserError(f"No preset is called '{name}'.", did_you_mean(name, known))
    return known[name]()


_SCALE_OUT = ("c5.4xlarge",)  # Fig. 9 to 12 look at one type only
# One size of each family, and the smallest c5; with the largest sizes c5n.4xlarge would not be the best, as it is there.
_ONE_OF_EACH = ("c5.xlarge", "c5.4xlarge", "c5n.4xlarge", "c4.4xlarge", "p2.xlarge", "p3.2xlarge")
_RIVALS = ("heterbo", "convbo", "auto")


def _fig9() -> Preset:
    case = paper_case(testbed.RESNET, _SCALE_OUT)
    contest = Contest("ResNet", case, Scenario.FASTEST, 4.0, _RIVALS)
    claims = (
        share_of_convbo(
            "HeterBO's profiling time ÷ ConvBO's", "16 %", "ResNet", lambda row: row.search_hours
        ),
        of_heterbo("HeterBO's total time ÷ the best possible", "about 1", "ResNet", lambda row: row.ratio),
    )
    return Preset("fig9", "Scenario 1: fastest, ResNet on 1–100 c5.4xlarge", (contest,), claims)


def _fig10() -> Preset:
    case = paper_case(testbed.RESNET, _SCALE_OUT)
    contest = Contest("ResNet", case, Scenario.DEADLINE, 4.0, _RIVALS, limit=6.0)
    claims = (
        share_of_convbo("HeterBO's profiling cost ÷ ConvBO's", "20 %", "ResNet", lambda row: row.search_usd),
        value_of("HeterBO's total time (limit 6 h)", "under 6 h", "ResNet", "heterbo", format_hours),
        value_of("ConvBO's total time", "9.4 h", "ResNet", "convbo", format_hours),
    )
    return Preset(
        "fig10", "Scenario 2: cheapest within 6 hours, ResNet on 1–100 c5.4xlarge", (contest,), claims
    )


def _fig11() -> Preset:
    case = paper_case(testbed.RESNET, _SCALE_OUT)
    contest = Contest("ResNet", case, Scenario.BUDGET, 4.0, _RIVALS, limit=100.0)
    claims = (
        share_of_convbo(
            "HeterBO's profiling time ÷ ConvBO's", "21 %", "ResNet", lambda row: row.search_hours
        ),
        value_of("HeterBO's total cost (limit $100)", "$96", "ResNet", "heterbo", format_usd),
        value_of("ConvBO's total cost", "$225", "ResNet", "convbo", format_usd),
    )
    return Preset("fig11", "Scenario 3: fastest within $100, ResNet on 1–100 c5.4xlarge", (contest,), claims)


def _fig12() -> Preset:
    case = paper_case(testbed.RESNET, _SCALE_OUT)
    randoms = tuple(f"random:k={k}" for k in (3, 6, 9, 12, 15))
    contest = Contest("ResNet", case, Scenario.FASTEST, 4.0, ("heterbo", *randoms, "auto"))
    claims = tuple(
        times(f"{name} ÷ HeterBO, total time", "above 1", "ResNet", name, "heterbo") for name in randoms
    )
    return Preset("fig12", "Random search with k probes, ResNet on 1–100 c5.4xlarge", (contest,), claims)


def _fig13() -> Preset:
    model = testbed.INCEPTION
    contest = Contest(
        "Inception-v3",
        paper_case(model),
        Scenario.BUDGET,
        2.0,
        ("heterbo", "convbo", _paleo(model), "auto"),
        80.0,
    )
    claims = (
        value_of("HeterBO's total cost (limit $80)", "under $80", "Inception-v3", "heterbo", format_usd),
        of_heterbo(
            "HeterBO's total time ÷ the best possible", "almost 1", "Inception-v3", lambda row: row.ratio
        ),
        value_of(
            "Paleo's total time ÷ the best possible",
            "above HeterBO's",
            "Inception-v3",
            _paleo(model),
            format_ratio,
        ),
        value_of("ConvBO's total cost", "over $80", "Inception-v3", "convbo", format_usd),
    )
    return Preset("fig13", "Paleo and HeterBO: fastest within $80, Inception-v3", (contest,), claims)


def _fig14() -> Preset:
    case = paper_case(testbed.CHAR_RNN)
    favoured = (("cherrypick", testbed.better_half(case)),)
    strategies = ("heterbo", "convbo", "cherrypick", "auto")
    contest = Contest("Char-RNN", case, Scenario.DEADLINE, 10.0, strategies, 20.0, favoured)
    claims = (
        value_of("HeterBO's total time (limit 20 h)", "under 20 h", "Char-RNN", "heterbo", format_hours),
        value_of("CherryPick's limits broken", "over the limit", "Char-RNN", "cherrypick", format_broken),
        value_of("ConvBO's limits broken", "over the limit", "Char-RNN", "convbo", format_broken),
        times("CherryPick ÷ HeterBO, total cost", "above 1", "Char-RNN", "cherrypick", "heterbo", total_usd),
    )
    return Preset("fig14", "CherryPick and HeterBO: cheapest within 20 hours, Char-RNN", (contest,), claims)


def _fig15() -> Preset:
    return _search_preset("fig15", testbed.CHAR_RNN, 120.0, 4.0, "9 probes")


def _fig16() -> Preset:
    return _search_preset("fig16", testbed.BERT_TENSORFLOW, 100.0, 1.5, "a similar search")


def _fig17() -> Preset:
    return _search_preset("fig17", testbed.BERT_MXNET, 120.0, 1.5, "a similar search")


def _search_preset(name: str, model: Model, budget_usd: float, hours: float, probes: str) -> Preset:
    """How HeterBO finds a deployment on three instance types within a budget."""
    case = paper_case(model, ("c5.4xlarge", "p2.xlarge", "p3.2xlarge"))
    contest = Contest(model.name, case, Scenario.BUDGET, hours, ("heterbo", "auto"), budget_usd)
    claims = (
        value_of("HeterBO's probes", probes, model.name, "heterbo", lambda row: f"{row.probes:.1f}"),
        value_of(
            f"HeterBO's total cost (limit ${budget_usd:g})", "under it", model.name, "heterbo", format_usd
        ),
        value_of("HeterBO's total time ÷ the best possible", "about 1", model.name, "heterbo", format_ratio),
    )
    return Preset(name, f"{model.name} within ${budget_usd:g}, three instance types", (contest,), claims)


def _fig18() -> Preset:
    contests = tuple(map(_under_budget, (100.0, 140.0, 180.0, 220.0, 260.0)))
    claims = (
        most_times("ConvBO ÷ HeterBO, total time, at most", "3.1 ×", "convbo"),
        most_times("CherryPick ÷ HeterBO, total time, at most", "2.34 ×", "cherrypick"),
        most_times("BO_imprd ÷ HeterBO, total time, at most", "above 1", "bo-imprd"),
        most_times("CP_imprd ÷ HeterBO, total time, at most", "above 1", "cp-imprd"),
    )
    return Preset(
        "fig18", "ResNet under budgets from $100 to $260; CherryPick knows the best type", contests, claims
    )


def _under_budget(budget_usd: float) -> Contest:
    """ResNet under one budget; CherryPick knows which instance type is the best."""
    strategies = ("heterbo", "convbo", "cherrypick", "bo-imprd", "cp-imprd", "auto")
    case = paper_case(testbed.RESNET, _ONE_OF_EACH)
    contest = Contest(f"${budget_usd:g}", case, Scenario.BUDGET, 3.0, strategies, budget_usd)
    best = (set_contest(contest).oracle.offer.instance.name,)
    return replace(contest, favoured=(("cherrypick", best), ("cp-imprd", best)))


def _fig19() -> Preset:
    models = (testbed.ALEXNET, testbed.RESNET, testbed.BERT_TENSORFLOW, testbed.ZERO_8B, testbed.ZERO_20B)
    speedups = ("1.3 ×", "between", "between", "between", "6.5 ×")
    savings = ("69 %", "between", "between", "between", "92 %")
    contests = tuple(Contest(m.name, paper_case(m), Scenario.FASTEST, 4.0, _RIVALS) for m in models)
    claims = tuple(
        claim
        for model, speedup, saved in zip(models, speedups, savings, strict=True)
        for claim in (
            times(f"{model.name}: speed-up of HeterBO over ConvBO", speedup, model.name, "convbo", "heterbo"),
            saving(f"{model.name}: cost saved by HeterBO", saved, model.name),
        )
    )
    return Preset("fig19", "Model sizes from 6.4 M to 20 B parameters, fastest", contests, claims)


PRESETS: dict[str, Callable[[], Preset]] = {
    "fig9": _fig9, "fig10": _fig10, "fig11": _fig11, "fig12": _fig12, "fig13": _fig13, "fig14": _fig14,
    "fig15": _fig15, "fig16": _fig16, "fig17": _fig17, "fig18": _fig18, "fig19": _fig19,
}  # fmt: skip


def _paleo(model: Model) -> str:
    """Paleo knows the model and the machines; it cannot know what saturates, straggles and is quirky."""
    exchange = "parameter-server" if model.exchange == "servers" else "all-reduce"
    facts = f"flops_per_sample={model.flops:.0f}:parameters={model.parameters:.0f}:batch_size={model.batch}"
    return f"paleo:{facts}:communication={exchange}:servers={testbed.SERVERS}"
