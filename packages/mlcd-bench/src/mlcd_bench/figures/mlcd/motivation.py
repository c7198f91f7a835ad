"""Figures 1, 2, 3 and 5 of the MLCD paper: why a search is needed, and why a conventional one costs too much.

Figures 1 and 3 are about machines and models alone: they are read off the testbed, and nothing is searched.
"""

from __future__ import annotations

from mlcd.core.machines import Deployment
from mlcd_bench.cases import Case
from mlcd_bench.claims import Claim, Figures, beats, fact
from mlcd_bench.figures.mlcd import testbed
from mlcd_bench.figures.mlcd.testbed import paper_case
from mlcd_bench.presets.preset import Contest, Curve, Preset
from mlcd_bench.protocol import Scenario

_GRID = (
    1,
    *range(10, 101, 10),
)  # of nodes: with them 184 of the deployments are looked at, as 180 in the paper
_SHOWN = ("c5.xlarge", "c5.4xlarge", "c5.18xlarge", "c4.4xlarge", "p2.xlarge", "p3.2xlarge")


def fig1() -> Preset:
    """Prices differ forty times, and for the same money per hour training times differ, too."""
    case = paper_case(testbed.CHAR_RNN)
    right, small, gpus = (_find(case, *each) for each in ((10, "c5.4xlarge"), (40, "c5.xlarge"), (9, "p2.xlarge")))
    dear, cheap = _find(case, 1, "p2.8xlarge"), _find(case, 1, "c5.xlarge")
    price = dear.usd_per_hour / cheap.usd_per_hour
    claims = (
        fact("price of p2.8xlarge ÷ c5.xlarge", "42.5 ×", f"{price:.1f} ×", price > 40.0),
        *(
            fact(
                f"training time of {each} ÷ {right}",
                "above 1, up to 3 ×",
                f"{_times(case, each, right):.1f} ×",
                _times(case, each, right) > 1.0,
            )
            for each in (small, gpus)
        ),
    )
    return Preset("fig1", "Prices of machines, and Char-RNN on three of about the same price", (), claims)


def fig2() -> Preset:
    """What looking costs: many deployments exhaustively, or by conventional optimisation."""
    whole = paper_case(testbed.RESNET)
    contests = (
        Contest("184 deployments", _grid(whole), Scenario.FASTEST, 4.0, ("exhaustive",)),
        Contest("all deployments", whole, Scenario.FASTEST, 4.0, ("convbo", "heterbo")),
    )
    claims = (
        Claim(
            "ConvBO's profiling time ÷ the exhaustive search's",
            "far below 1",
            lambda found: f"{_searched(found):.0%}",
            lambda found: _searched(found) < 1.0,
        ),
        Claim(
            "ConvBO's profiling time ÷ its training time",
            "almost 1",
            lambda found: f"{_share(found, 'convbo'):.0%}",
        ),
        beats("above 1", "all deployments", "convbo"),
    )
    return Preset("fig2", "Exhaustive and conventional search, ResNet on all types", contests, claims)


def fig3() -> Preset:
    """Neither larger machines nor more of them pay in proportion; more of them pay less and less, then nothing."""
    case = paper_case(testbed.CHAR_RNN)
    speeds = {each.nodes: speed for each, speed in case.speeds.items() if _type(each) == "c5.4xlarge"}
    peak = max(speeds, key=speeds.__getitem__)
    up = _times(case, _find(case, 1, "c5.xlarge"), _find(case, 1, "c5.18xlarge"))
    claims = (
        fact("speed of 72 vCPUs ÷ 4 vCPUs of one machine", "not in proportion (18)", f"{up:.1f} ×", up < 18.0),
        fact("fastest number of c5.4xlarge", "neither 1 nor the most", f"{peak}", 1 < peak < max(speeds)),
        fact(
            "speed of 100 c5.4xlarge ÷ the fastest number's",
            "below 1",
            f"{speeds[max(speeds)] / speeds[peak]:.0%}",
            speeds[max(speeds)] < speeds[peak],
        ),
    )
    curves = tuple(_curve(case, name) for name in _SHOWN)
    return Preset("fig3", "Training speed over scale-up and scale-out, Char-RNN", (), claims, curves)


def fig5() -> Preset:
    """Most steps of a conventional search find nothing better."""
    contest = Contest("AlexNet", paper_case(testbed.ALEXNET), Scenario.FASTEST, 4.0, ("convbo", "heterbo"))
    row = ("AlexNet", "convbo")
    claims = (
        Claim(
            "ConvBO's steps that find something better",
            "few of them",
            lambda found: f"{found[row].improving:.1f} of {found[row].probes:.1f}",
            lambda found: found[row].improving < 0.5 * found[row].probes,
        ),
    )
    return Preset("fig5", "What each step of ConvBO brings, AlexNet", (contest,), claims)


def _grid(case: Case) -> Case:
    kept = tuple((each, speed) for each, speed in case.truth if each.nodes in _GRID)
    return Case(case.trace, case.workload, case.batch, kept, case.samples, case.failing)


def _searched(found: Figures) -> float:
    grid = found[("184 deployments", "exhaustive")]
    return found[("all deployments", "convbo")].search_hours / grid.search_hours


def _share(found: Figures, strategy: str) -> float:
    row = found[("all deployments", strategy)]
    return row.search_hours / (row.total_hours - row.search_hours)


def _curve(case: Case, name: str) -> Curve:
    points = [(each.nodes, speed) for each, speed in case.speeds.items() if _type(each) == name]
    return Curve(name, tuple(nodes for nodes, _ in points), tuple(speed for _, speed in points))


def _times(case: Case, one: Deployment, other: Deployment) -> float:
    """How much longer training takes on the one."""
    return case.speeds[other] / case.speeds[one]


def _find(case: Case, nodes: int, name: str) -> Deployment:
    return next(each for each in case.space if each.nodes == nodes and _type(each) == name)


def _type(deployment: Deployment) -> str:
    return deployment.offer.instance.name
