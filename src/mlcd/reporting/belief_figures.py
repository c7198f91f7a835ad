"""Charts of what the search believed: throughput over nodes, after each trial, for each kind of machine."""

from __future__ import annotations

from collections import Counter
from math import ceil, isfinite

from mlcd.core.machines import Deployment
from mlcd.core.study import Belief
from mlcd.core.trial import Trial
from mlcd.core.view import JobStory
from mlcd.reporting.figures import Figure, Trace, axis, band, colour, dots, line

MOST_PANELS = 12


def belief_figures(story: JobStory) -> tuple[Figure, ...]:
    """For each instance type the throughput over nodes: mean and 95 % band after each trial, and what was seen."""
    steps = story.beliefs
    panels = _panels(story)
    if not steps or not panels:
        return ()
    first = len(story.view.trials) - len(steps) + 1  # beliefs may begin later than the trials
    return tuple(
        Figure(
            title=name,
            frames=tuple(
                _belief_frame(_on_panel(step, name), _tried(story, name, first + k), number)
                for k, step in enumerate(steps)
            ),
            x=axis("nodes", tick0=1, dtick=_node_step(story, name)),
            y=axis("samples/s", range=[0, _ceiling(story, name)]),
        )
        for number, name in enumerate(panels[:MOST_PANELS])
    )


def panels_left_out(story: JobStory) -> int:
    """How many instance types have no chart of their own."""
    return max(0, len(_panels(story)) - MOST_PANELS)


def _panel(deployment: Deployment) -> str:
    batch = f", batch {deployment.batch_size}" if deployment.batch_size is not None else ""
    place = f", {deployment.offer.region}" if deployment.offer.region else ""
    beside = f" with {deployment.servers} × {deployment.of_servers.name} serving" if deployment.server_offer else ""
    return f"{deployment.offer.name}{beside}{place}{batch}"


def _panels(story: JobStory) -> list[str]:
    """What is shown in charts of its own: the chosen kind first, then what was tried most."""
    tried = Counter(_panel(trial.deployment) for trial in story.view.trials)
    plan = story.view.record.plan
    taken = _panel(plan.deployment) if plan is not None else ""
    names = dict.fromkeys(_panel(belief.deployment) for step in story.beliefs for belief in step)
    return sorted(names, key=lambda name: (name != taken, -tried[name]))


def _on_panel(step: tuple[Belief, ...], name: str) -> list[Belief]:
    return sorted((b for b in step if _panel(b.deployment) == name), key=lambda b: b.deployment.nodes)


def _tried(story: JobStory, name: str, steps: int) -> list[tuple[int, Trial]]:
    numbered = list(enumerate(story.view.trials, start=1))[:steps]
    return [(number, trial) for number, trial in numbered if _panel(trial.deployment) == name]


def _belief_frame(beliefs: list[Belief], tried: list[tuple[int, Trial]], number: int) -> tuple[Trace, ...]:
    nodes = [float(belief.deployment.nodes) for belief in beliefs]
    low = [max(0.0, belief.low) for belief in beliefs]
    bands = band(nodes, low, [belief.high for belief in beliefs], colour(number))
    means = [belief.samples_per_second for belief in beliefs]
    alone = {"mode": "lines+markers"} if len(nodes) == 1 else {}  # a line through one point is not seen
    mean = line("believed", nodes, means, colour(number), **alone)
    seen = [(i, trial, trial.measurement) for i, trial in tried]
    measured = dots(
        "measured",
        [float(trial.deployment.nodes) for _, trial, found in seen if found],
        [found.samples_per_second for _, _, found in seen if found],
        "var:ink",
        mode="markers+text",
        size=8,
        text=[f"{i}" for i, _, found in seen if found],
        textposition="top center",
    )
    failed = dots(
        "failed",
        [float(trial.deployment.nodes) for _, trial, found in seen if not found],
        [0.0 for _, _, found in seen if not found],
        "var:bad",
        "x",
        mode="markers+text",
        text=[f"{i}" for i, _, found in seen if not found],
        textposition="top center",
        cliponaxis=False,
    )
    return (*bands, mean, measured, failed)


def _node_step(story: JobStory, name: str) -> int:
    """Between two ticks: whole nodes, and not too many of them."""
    most = max((belief.deployment.nodes for belief in _on_panel(story.beliefs[-1], name)), default=1)
    return max(1, ceil(most / 8))


def _ceiling(story: JobStory, name: str) -> float:
    """High enough for all that was seen and finally believed; the wide bands of the first steps may be cut."""
    seen = [t.measurement.high for _, t in _tried(story, name, len(story.view.trials)) if t.measurement]
    believed = [belief.samples_per_second for belief in _on_panel(story.beliefs[-1], name)]
    return 1.3 * max((value for value in (*seen, *believed) if isfinite(value)), default=1.0)
