"""One search step by step: what was tried, what was true, and what the searcher believed at its end."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import plotly.graph_objects as go

from mlcd.core.machines import Deployment
from mlcd.core.study import Belief
from mlcd_bench.episode import Search, play_search
from mlcd_bench.plots import COLORS
from mlcd_bench.protocol import Problem, Scenario, set_problem
from mlcd_bench.runner import Bench
from mlcd_bench.strategies import Strategy

MOST_TYPES = 8  # drawn; more would hide each other


@dataclass(frozen=True)
class Example:
    """An episode worth looking at."""

    strategy: str
    problem: Problem
    search: Search
    beliefs: tuple[Belief, ...]

    @property
    def title(self) -> str:
        """What is seen."""
        problem, choice = self.problem, self.search.stop.choice
        return f"{self.strategy} on {problem.case.name}, {problem.scenario}: {len(self.search.study.trials)} probes, then {choice}"


def example_of(bench: Bench, strategy: Strategy) -> Example | None:
    """The first seed of the first case with room to search, played again; None: no case has a size."""
    scenario = Scenario.BUDGET if Scenario.BUDGET in bench.scenarios else bench.scenarios[0]
    fit = (case for case in bench.cases if strategy.applies_to(case.workload))
    cases = sorted(fit, key=lambda case: case.batch == "all")
    problems = (set_problem(case, scenario, bench.hours[-1], bench.slacks[0]) for case in cases)
    problem = next((each for each in problems if each is not None), None)
    if problem is None:
        return None
    searcher = strategy.open(problem.case.workload)
    search = play_search(problem, searcher, 0, bench.rules)
    return Example(strategy.text, problem, search, searcher.beliefs(search.study))


def search_figure(example: Example) -> go.Figure:
    """Throughput against nodes, one colour for each instance type; probes are numbered, the choice is ringed."""
    figure = go.Figure()
    types = _types_to_draw(example)
    for at, name in enumerate(types):
        color = COLORS[at % len(COLORS)]
        _draw_band(figure, example, name, color)
        _draw_truth(figure, example, name, color)
    _draw_probes(figure, example, types)
    figure.update_xaxes(title="nodes", type="log").update_yaxes(title="samples per second", type="log")
    return figure.update_layout(height=480, title=example.title)


def _types_to_draw(example: Example) -> list[str]:
    """What was tried first; then the fastest of the rest."""
    tried = [_type(trial.deployment) for trial in example.search.study.trials]
    speeds = example.problem.case.speeds
    rest = sorted(speeds, key=lambda deployment: -speeds[deployment])
    return list(dict.fromkeys([*tried, *map(_type, rest)]))[:MOST_TYPES]


def _draw_truth(figure: go.Figure, example: Example, name: str, color: str) -> None:
    best: dict[int, float] = defaultdict(float)
    for deployment, speed in example.problem.case.speeds.items():
        if _type(deployment) == name:
            best[deployment.nodes] = max(best[deployment.nodes], speed)
    nodes = sorted(best)
    line = {"color": color, "dash": "dot", "width": 1}
    figure.add_trace(
        go.Scatter(x=nodes, y=[best[n] for n in nodes], mode="lines", line=line, name=name, legendgroup=name)
    )


def _draw_band(figure: go.Figure, example: Example, name: str, color: str) -> None:
    """The band of the chosen type alone: all of them together could not be read."""
    choice = example.search.stop.choice
    if choice is None or name != _type(choice):
        return
    own = [
        belief
        for belief in example.beliefs
        if _type(belief.deployment) == name and belief.deployment.batch_size == choice.batch_size
    ]
    own.sort(key=lambda belief: belief.deployment.nodes)
    nodes = [belief.deployment.nodes for belief in own]
    edge = [belief.high for belief in own] + [belief.low for belief in reversed(own)]
    style = {"mode": "lines", "line": {"width": 0}, "fillcolor": color, "opacity": 0.2, "hoverinfo": "skip"}
    figure.add_trace(go.Scatter(x=nodes + nodes[::-1], y=edge, fill="toself", name=f"{name}, 95 % believed", **style))


def _draw_probes(figure: go.Figure, example: Example, types: list[str]) -> None:
    for number, trial in enumerate(example.search.study.trials, start=1):
        name, chosen = _type(trial.deployment), trial.deployment == example.search.stop.choice
        if trial.measurement is None or name not in types:
            continue
        color = COLORS[types.index(name) % len(COLORS)]
        marker = {
            "size": 20 if chosen else 15,
            "color": "white",
            "line": {"color": color, "width": 4 if chosen else 2},
        }
        figure.add_trace(
            go.Scatter(
                x=[trial.deployment.nodes],
                y=[trial.measurement.samples_per_second],
                mode="markers+text",
                text=[str(number)],
                marker=marker,
                textfont={"size": 9},
                name=str(trial.deployment),
                legendgroup=name,
                showlegend=False,
            )
        )


def _type(deployment: Deployment) -> str:
    return deployment.offer.name
