"""The SMLT paper's figures on a synthetic Lambda, beside what the paper says.

The paper's jobs are not public; sizes and schedules are set here, and what differs from the paper is said beside it. Figures 5
and 6 are drawings; 7 and 8 are of real communication: benchmarks/function_sync measures it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from mlcd_bench.cases import Case
from mlcd_bench.claims import Averages, Claim, Figures, Measure, format_hours, format_usd, hours, usd
from mlcd_bench.figures.smlt.motivation import fig1, fig2, fig3
from mlcd_bench.figures.smlt.testbed import BERT_MEDIUM, BERT_SMALL, RESNET_18, Net, functions_case
from mlcd_bench.figures.smlt.workflows import FUNCTION_RULES, fig11a, fig11b, fig12, fig13
from mlcd_bench.presets.preset import Contest, Preset, set_contest
from mlcd_bench.protocol import Problem, Scenario

_SEARCHER = "auto"
_LEARNER = "q-learning"
_AS_ACCURATE = 0.98  # of the other's accuracy
_ANY = "random:k=1"
_WAYS = {"Siren": "objects", "Cirrus": "central"}  # how the rivals synchronise
_JOB_HOURS = 1.0  # of the fastest training


def fig4() -> Preset:
    """Bayesian optimisation and reinforcement learning."""
    rules = replace(FUNCTION_RULES, carry=False)  # the search by itself
    rivals = (_SEARCHER, "heterbo", "convbo", _LEARNER)
    contests = tuple(
        Contest(net.name, functions_case(net), Scenario.FASTEST, 4.0, rivals, rules=rules)
        for net in (RESNET_18, BERT_SMALL)
    )
    claims = tuple(claim for contest in contests for claim in _learning_claims(contest.label))
    return Preset("smlt-fig4", "Bayesian optimisation and reinforcement learning: fastest", contests, claims)


def _learning_claims(label: str) -> tuple[Claim, ...]:
    ours, learner = (label, _SEARCHER), (label, _LEARNER)
    return (
        Claim(
            f"{label}: accuracy of Bayesian optimisation, of reinforcement learning",
            "the same",
            lambda found: f"{accuracy(found[ours]):.0%}, {accuracy(found[learner]):.0%}",
            lambda found: accuracy(found[ours]) >= _AS_ACCURATE * accuracy(found[learner]),
        ),
        _times(
            f"{label}: search time of reinforcement learning ÷ Bayesian optimisation",
            "3 ×",
            learner,
            ours,
            lambda row: row.search_hours,
        ),
        _times(f"{label}: search cost, the same", "not told", learner, ours, lambda row: row.search_usd),
    )


def accuracy(row: Averages) -> float:
    """The best training time possible ÷ that of what was chosen."""
    return row.oracle_hours / (row.total_hours - row.search_hours)


def fig9() -> Preset:
    """Scenario 1: cheapest within a time limit; Siren and Cirrus synchronise as they do and know no limit."""
    contests = _rivals(Scenario.DEADLINE, 1.5)
    claims = (
        _keeps(f"SMLT's way ({_SEARCHER}): total time within the limit", "within the limit", format_hours),
        *(
            Claim(
                f"{name}'s way, any allocation: total time over the limit",
                "over the limit",
                lambda found, name=name: format_hours(found[(name, _ANY)]),  # type: ignore[misc]  # a default binds it
                lambda found, name=name: found[(name, _ANY)].broken_share > 0.0,  # type: ignore[misc]
            )
            for name in _WAYS
        ),
        *(_times(f"{name}'s cost ÷ SMLT's", "above 1", (name, _ANY), ("SMLT", _SEARCHER), usd) for name in _WAYS),
        *(_of_the_best(name, lambda row: row.oracle_usd, usd, "cost") for name in _WAYS),
    )
    return Preset("smlt-fig9", "Scenario 1: BERT-medium, cheapest within a deadline", contests, claims)


def fig10() -> Preset:
    """Scenario 2: fastest within a budget."""
    claims = (
        _keeps(f"SMLT's way ({_SEARCHER}): total cost within the budget", "within the budget", format_usd),
        *(_times(f"{name}'s time ÷ SMLT's", "above 1", (name, _ANY), ("SMLT", _SEARCHER), hours) for name in _WAYS),
        *(_of_the_best(name, lambda row: row.oracle_hours, hours, "time") for name in _WAYS),
    )
    contests = _rivals(Scenario.BUDGET, 3.0)
    return Preset("smlt-fig10", "Scenario 2: BERT-medium, fastest within a budget", contests, claims)


SMLT: dict[str, Callable[[], Preset]] = {
    "smlt-fig1": fig1, "smlt-fig2": fig2, "smlt-fig3": fig3, "smlt-fig4": fig4, "smlt-fig9": fig9,
    "smlt-fig10": fig10, "smlt-fig11a": fig11a, "smlt-fig11b": fig11b, "smlt-fig12": fig12, "smlt-fig13": fig13,
}  # fmt: skip


def _rivals(scenario: Scenario, slack: float) -> tuple[Contest, ...]:
    """The same job for all three: its size and its limit are those of SMLT's way."""
    strategies = (_SEARCHER, "heterbo")
    ours = Contest("SMLT", functions_case(BERT_MEDIUM), scenario, _JOB_HOURS, strategies, rules=FUNCTION_RULES)
    problem = replace(set_contest(ours), slack=slack)
    others = [_same_job(name, functions_case(_by(way)), problem) for name, way in _WAYS.items()]
    return (replace(ours, limit=problem.limit), *others)


def _by(exchange: str) -> Net:
    return replace(BERT_MEDIUM, exchange=exchange)


def _same_job(name: str, case: Case, problem: Problem) -> Contest:
    """The same samples by another way of synchronising; its fastest takes as long as it takes."""
    fastest_hours = problem.scale / max(case.speeds.values()) / 3600.0
    contest = Contest(name, case, problem.scenario, fastest_hours, (_ANY,), rules=FUNCTION_RULES)
    least = set_contest(contest).limit or 0.0
    return replace(contest, limit=max(problem.limit or 0.0, least))


def _keeps(text: str, paper: str, say: Callable[[Averages], str]) -> Claim:
    row = ("SMLT", _SEARCHER)
    return Claim(text, paper, lambda found: say(found[row]), lambda found: found[row].broken_share == 0.0)


def _of_the_best(name: str, best: Measure, ours: Measure, what: str) -> Claim:
    """What the paper does not look at: the rival on the allocation that would have been its best."""
    return Claim(
        f"{name}'s {what} on its best allocation, known beforehand ÷ SMLT's",
        "not told",
        lambda found: f"{best(found[(name, _ANY)]) / ours(found[('SMLT', _SEARCHER)]):.2f} ×",
    )


def _times(text: str, paper: str, rival: tuple[str, str], ours: tuple[str, str], of: Measure) -> Claim:
    """A rival's measure as a multiple of ours, which the paper says is above 1."""

    def times(found: Figures) -> float:
        return of(found[rival]) / of(found[ours])

    return Claim(text, paper, lambda found: f"{times(found):.2f} ×", lambda found: times(found) > 1.0)
