"""The MLCD paper's own figures (section V) on the synthetic testbed, beside what the paper says.

The paper does not say how large its jobs are. They are set here so that its limits bind as they do there; all
else (limits, machines, models, probe times) is the paper's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from mlcd_bench.claims import (
    Claim,
    Figures,
    beats,
    breaks_limit,
    format_hours,
    format_usd,
    keeps_limit,
    less_search,
    nearest_to_best,
    saves,
    usd,
    value_of,
)
from mlcd_bench.figures.mlcd import testbed
from mlcd_bench.figures.mlcd.motivation import fig1, fig2, fig3, fig5
from mlcd_bench.figures.mlcd.testbed import Model, paper_case
from mlcd_bench.presets.preset import Contest, Preset, set_contest
from mlcd_bench.protocol import Scenario

_SCALE_OUT = ("c5.4xlarge",)  # Fig. 9 to 12 look at one type only
# One size of each family, and the smallest c5; with the largest sizes c5n.4xlarge would not be the best, as it is there.
_ONE_OF_EACH = ("c5.xlarge", "c5.4xlarge", "c5n.4xlarge", "c4.4xlarge", "p2.xlarge", "p3.2xlarge")
_RIVALS = ("heterbo", "convbo", "auto")
_RIVALS_18 = (
    ("convbo", "above 1, up to 3.1 ×"),
    ("cherrypick", "above 1, up to 2.34 ×"),
    ("bo-imprd", "above 1"),
    ("cp-imprd", "above 1"),
)
_BUDGETS = (100.0, 140.0, 180.0, 220.0, 260.0)


def fig9() -> Preset:
    """Scenario 1."""
    contest = Contest("ResNet", paper_case(testbed.RESNET, _SCALE_OUT), Scenario.FASTEST, 4.0, _RIVALS)
    claims = (
        less_search("16 %", "ResNet", lambda row: row.search_usd, "cost"),
        less_search("not told", "ResNet", lambda row: row.search_hours, "time"),
        nearest_to_best("about 1", "ResNet", ("convbo",)),
        beats("above 1", "ResNet", "convbo"),
    )
    return Preset("fig9", "Scenario 1: fastest, ResNet on 1–100 c5.4xlarge", (contest,), claims)


def fig10() -> Preset:
    """Scenario 2."""
    case = paper_case(testbed.RESNET, _SCALE_OUT)
    contest = Contest("ResNet", case, Scenario.DEADLINE, 4.0, _RIVALS, limit=6.0)
    claims = (
        less_search("20 %", "ResNet", lambda row: row.search_usd, "cost"),
        keeps_limit("under 6 h", "ResNet", format_hours),
        breaks_limit("9.4 h of 6 h", "ResNet", "convbo", format_hours),
        beats("above 1", "ResNet", "convbo", usd, "total cost"),
    )
    title = "Scenario 2: cheapest within 6 hours, ResNet on 1–100 c5.4xlarge"
    return Preset("fig10", title, (contest,), claims)


def fig11() -> Preset:
    """Scenario 3."""
    case = paper_case(testbed.RESNET, _SCALE_OUT)
    contest = Contest("ResNet", case, Scenario.BUDGET, 4.0, _RIVALS, limit=100.0)
    claims = (
        less_search("21 %", "ResNet", lambda row: row.search_hours, "time"),
        keeps_limit("$96 of $100", "ResNet", format_usd),
        breaks_limit("$225 of $100", "ResNet", "convbo", format_usd),
        beats("above 1", "ResNet", "convbo"),
    )
    return Preset("fig11", "Scenario 3: fastest within $100, ResNet on 1–100 c5.4xlarge", (contest,), claims)


def fig12() -> Preset:
    """Random search."""
    case = paper_case(testbed.RESNET, _SCALE_OUT)
    randoms = tuple(f"random:k={k}" for k in (3, 6, 9, 12, 15))
    contest = Contest("ResNet", case, Scenario.FASTEST, 4.0, ("heterbo", *randoms, "auto"))
    claims = tuple(beats("above 1", "ResNet", name) for name in randoms)
    return Preset("fig12", "Random search with k probes, ResNet on 1–100 c5.4xlarge", (contest,), claims)


def fig13() -> Preset:
    """Paleo."""
    model, label = testbed.INCEPTION, "Inception-v3"
    paleo = _paleo(model)
    rivals = ("heterbo", "convbo", paleo, "auto")
    contest = Contest(label, paper_case(model), Scenario.BUDGET, 2.0, rivals, 80.0)
    claims = (
        keeps_limit("under $80", label, format_usd),
        nearest_to_best("almost 1", label, ("convbo", paleo)),
        Claim(
            "Inception-v3: Paleo misses the best, or passes the limit",
            "misses it",
            lambda found: f"{found[(label, paleo)].ratio:.2f}, {format_usd(found[(label, paleo)])}",
            lambda found: found[(label, paleo)].broken_share > 0 or found[(label, paleo)].ratio > 1.0,
        ),
        breaks_limit("over $80", label, "convbo", format_usd),
        beats("above 1", label, "convbo"),
        beats("above 1", label, "convbo", usd, "total cost"),
    )
    return Preset("fig13", "Paleo and HeterBO: fastest within $80, Inception-v3", (contest,), claims)


def fig14() -> Preset:
    """CherryPick."""
    case, label = paper_case(testbed.CHAR_RNN), "Char-RNN"
    favoured = (("cherrypick", testbed.better_half(case)),)
    strategies = ("heterbo", "convbo", "cherrypick", "auto")
    contest = Contest(label, case, Scenario.DEADLINE, 10.0, strategies, 20.0, favoured)
    claims = (
        keeps_limit("under 20 h", label, format_hours),
        breaks_limit("over the limit", label, "cherrypick", format_hours),
        breaks_limit("over the limit", label, "convbo", format_hours),
        beats("above 1", label, "cherrypick", usd, "total cost"),
        beats("above 1", label, "convbo", usd, "total cost"),
    )
    return Preset("fig14", "CherryPick and HeterBO: cheapest within 20 hours, Char-RNN", (contest,), claims)


def fig15() -> Preset:
    """Char-RNN, step by step."""
    return _search_preset("fig15", testbed.CHAR_RNN, 120.0, 4.0, most_probes=9)


def fig16() -> Preset:
    """BERT over TensorFlow, step by step."""
    return _search_preset("fig16", testbed.BERT_TENSORFLOW, 100.0, 1.5)


def fig17() -> Preset:
    """BERT over MXNet, step by step."""
    return _search_preset("fig17", testbed.BERT_MXNET, 120.0, 1.5)


def _search_preset(name: str, model: Model, budget_usd: float, hours: float, most_probes: int | None = None) -> Preset:
    """How HeterBO finds a deployment on three instance types within a budget."""
    case, label = paper_case(model, ("c5.4xlarge", "p2.xlarge", "p3.2xlarge")), model.name
    contest = Contest(label, case, Scenario.BUDGET, hours, _RIVALS, budget_usd)
    claims = (
        _probes(label, most_probes),
        keeps_limit(f"under ${budget_usd:g}", label, format_usd),
        nearest_to_best("about 1", label, ("convbo",)),
    )
    return Preset(name, f"{model.name} within ${budget_usd:g}, three instance types", (contest,), claims)


def _probes(label: str, most: int | None) -> Claim:
    text, row = f"{label}: HeterBO's probes", (label, "heterbo")
    if most is None:
        return value_of(text, "a similar search", *row, lambda each: f"{each.probes:.1f}")
    return Claim(text, f"{most}", lambda found: f"{found[row].probes:.1f}", lambda f: f[row].probes <= most)


def fig18() -> Preset:
    """Budgets."""
    contests = tuple(map(_under_budget, _BUDGETS))
    claims = (
        *(keeps_limit("under it", contest.label, format_usd) for contest in contests),
        *(beats(told, contest.label, rival) for rival, told in _RIVALS_18 for contest in contests),
        _more_budget_less_time(),
    )
    title = "ResNet under budgets from $100 to $260; CherryPick knows the best type"
    return Preset("fig18", title, contests, claims)


def _more_budget_less_time() -> Claim:
    def share(found: Figures) -> float:
        least, most = (found[(f"${budget:g}", "heterbo")] for budget in (_BUDGETS[0], _BUDGETS[-1]))
        return most.total_hours / least.total_hours

    text = "HeterBO's total time under $260 ÷ under $100"
    return Claim(text, "below 1", lambda found: f"{share(found):.2f}", lambda found: share(found) < 1.0)


def _under_budget(budget_usd: float) -> Contest:
    """ResNet under one budget; CherryPick knows which instance type is the best."""
    strategies = ("heterbo", "convbo", "cherrypick", "bo-imprd", "cp-imprd", "auto")
    case = paper_case(testbed.RESNET, _ONE_OF_EACH)
    contest = Contest(f"${budget_usd:g}", case, Scenario.BUDGET, 3.0, strategies, budget_usd)
    best = (set_contest(contest).oracle.offer.instance.name,)
    return replace(contest, favoured=(("cherrypick", best), ("cp-imprd", best)))


def fig19() -> Preset:
    """Model sizes."""
    models = (testbed.ALEXNET, testbed.RESNET, testbed.BERT_TENSORFLOW, testbed.ZERO_8B, testbed.ZERO_20B)
    speedups = ("1.3 ×", "between", "between", "between", "6.5 ×")
    savings = ("69 %", "between", "between", "between", "92 %")
    contests = tuple(Contest(m.name, paper_case(m), Scenario.FASTEST, 4.0, _RIVALS) for m in models)
    told = zip(models, speedups, savings, strict=True)
    pairs = ((beats(speedup, m.name, "convbo"), saves(saved, m.name)) for m, speedup, saved in told)
    claims = (*(claim for pair in pairs for claim in pair), _grows(models[0].name, models[-1].name))
    return Preset("fig19", "Model sizes from 6.4 M to 20 B parameters, fastest", contests, claims)


def _grows(small: str, large: str) -> Claim:
    def growth(found: Figures) -> float:
        once = [found[(m, "convbo")].total_hours / found[(m, "heterbo")].total_hours for m in (small, large)]
        return once[1] / once[0]

    text = f"speed-up for {large} ÷ for {small}"
    return Claim(text, "5 ×", lambda found: f"{growth(found):.2f} ×", lambda found: growth(found) > 1.0)


MLCD: dict[str, Callable[[], Preset]] = {
    "fig1": fig1, "fig2": fig2, "fig3": fig3, "fig5": fig5, "fig9": fig9, "fig10": fig10, "fig11": fig11,
    "fig12": fig12, "fig13": fig13, "fig14": fig14, "fig15": fig15, "fig16": fig16, "fig17": fig17,
    "fig18": fig18, "fig19": fig19,
}  # fmt: skip


def _paleo(model: Model) -> str:
    """Paleo knows the model and the machines; it cannot know what saturates, straggles and is quirky."""
    exchange = "parameter-server" if model.exchange == "servers" else "all-reduce"
    facts = f"flops_per_sample={model.flops:.0f}:parameters={model.parameters:.0f}:batch_size={model.batch}"
    return f"paleo:{facts}:communication={exchange}:servers={testbed.SERVERS}"
