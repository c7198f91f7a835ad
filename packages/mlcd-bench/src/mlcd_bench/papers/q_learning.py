"""Reinforcement learning over offers × nodes, after Siren (INFOCOM 2019): what Bayesian optimisation is compared with.

Siren's agent changes memory and number of functions step by step and is rewarded by what that gains. So does this one, with
a table instead of a neural network, which for a hundred states needs less:

    state    a deployment; offers are in the order of their prices
    action   one offer up or down, one number of nodes up or down
    reward   ln(value before ÷ value after), value as the goal counts it, times what a limit is passed by; −1 where it fails
    update   Q(s, a) += rate·(reward + discount·max Q(s', ·) − Q(s, a))

An episode begins at a random deployment and walks `steps` steps, at random with a chance that falls from 1 to `least_chance`.
The training ends when the best walk from where the first episode began has led to the same place `settled` times in a row.

A deployment that was tried before costs nothing to visit again, which flatters the agent. So do the defaults: of 24 schedules
they are the one that was as accurate as Bayesian optimisation on the testbed of functions with the fewest probes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import log
from typing import Annotated

import numpy as np

from mlcd.core.machines import Deployment
from mlcd.core.study import Belief, Stop, Study
from mlcd.core.trial import Trial
from mlcd.search.limits import expected_total, goal_value
from mlcd.search.trials import exclusions
from mlcd_bench.papers.convbo import final_choice

_ACTIONS = ((1, 0), (-1, 0), (0, 1), (0, -1))
_FAILED = -1.0
State = tuple[int, int]


@dataclass(frozen=True)
class QLearning:
    """Learns by trial and error where to go from each deployment; every new place is a probe."""

    episodes: Annotated[int, "at the most"] = 60
    steps: Annotated[int, "of an episode"] = 20
    rate: Annotated[float, "of learning"] = 0.5
    discount: Annotated[float, "of what comes later"] = 0.9
    exploring: Annotated[int, "episodes in which the chance of a random step falls to the least"] = 2
    least_chance: Annotated[float, "of a random step"] = 0.1
    settled: Annotated[int, "episodes with the same end, after which it stops"] = 2

    def suggest(self, study: Study) -> Deployment | Stop:
        """The first deployment that the agent comes to and knows nothing of, or the end of its training."""
        if not study.probes_left:
            return self._stop(study, f"all {study.max_probes} probes that were allowed are used")
        step = _Training(self, study).run()
        if step is None:
            return self._stop(study, "the agent has settled")
        return self._stop(study, "what it comes to next is being tried") if step in study.pending else step

    def beliefs(self, study: Study) -> tuple[Belief, ...]:
        """It believes nothing of throughputs."""
        return ()

    @staticmethod
    def _stop(study: Study, reason: str) -> Stop:
        return Stop(final_choice(study, complies=False), reason)


@dataclass
class _Training:
    """The agent's whole training, played again from its beginning with what is known by now."""

    agent: QLearning
    study: Study
    quality: defaultdict[State, list[float]] = field(default_factory=lambda: defaultdict(lambda: [0.0] * len(_ACTIONS)))

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.study.seed)
        self.grid = _grid_of(self.study.space)
        self.values = _values(self.study)

    def run(self) -> Deployment | None:
        """The deployment that it needs to know, or none where it has settled."""
        start, ends = self._random_state(), list[State]()
        for episode in range(self.agent.episodes):
            begin = start if episode == 0 else self._random_state()
            if (unknown := self._walk(begin, chance=self._chance(episode))) is not None:
                return unknown
            ends.append(self._best_end(start))
            if self._chance(episode) <= self.agent.least_chance and self._settled(ends):
                return None
        return None

    def _settled(self, ends: list[State]) -> bool:
        last = ends[-self.agent.settled :]
        return len(last) == self.agent.settled and len(set(last)) == 1

    def _chance(self, episode: int) -> float:
        return max(self.agent.least_chance, 1.0 - episode / self.agent.exploring)

    def _walk(self, state: State, chance: float) -> Deployment | None:
        if self.grid[state] not in self.values:
            return self.grid[state]
        for _ in range(self.agent.steps):
            action = self._random_action() if self.random.random() < chance else int(np.argmax(self.quality[state]))
            then = self._moved(state, action)
            if self.grid[then] not in self.values:
                return self.grid[then]
            state = self._learn(state, action, then)
        return None

    def _learn(self, state: State, action: int, then: State) -> State:
        """Where it is afterwards: what fails is not entered."""
        before, after = self.values[self.grid[state]], self.values[self.grid[then]]
        reward = _FAILED if after is None else 0.0 if before is None else log(before / after)
        target = reward + self.agent.discount * max(self.quality[then])
        self.quality[state][action] += self.agent.rate * (target - self.quality[state][action])
        return state if after is None and before is not None else then

    def _best_end(self, state: State) -> State:
        for _ in range(self.agent.steps):
            best = int(np.argmax(self.quality[state]))
            if self.quality[state][best] <= 0.0:
                return state
            state = self._moved(state, best)
        return state

    def _moved(self, state: State, action: int) -> State:
        """One step on; at the edge, and where an offer has no such number of nodes, it stays."""
        there = (state[0] + _ACTIONS[action][0], state[1] + _ACTIONS[action][1])
        return there if there in self.grid else state

    def _random_action(self) -> int:
        return int(self.random.integers(len(_ACTIONS)))

    def _random_state(self) -> State:
        states = list(self.grid)
        return states[int(self.random.integers(len(states)))]


def _grid_of(space: tuple[Deployment, ...]) -> Mapping[State, Deployment]:
    """Offers by price in one direction; nodes, parameter servers and batch sizes in the other."""
    offers = sorted({each.offer for each in space}, key=lambda offer: (offer.usd_per_hour, offer.name))
    rows = sorted({_size(each) for each in space})
    place = {offer: number for number, offer in enumerate(offers)}, {size: number for number, size in enumerate(rows)}
    return {(place[0][each.offer], place[1][_size(each)]): each for each in space}


def _size(deployment: Deployment) -> tuple[int, int, int]:
    return deployment.nodes, deployment.servers, deployment.batch_size or 0


def _values(study: Study) -> dict[Deployment, float | None]:
    """What the goal makes small, raised by as much as a limit is passed; none where it failed, or surely would."""
    rules = exclusions(study)
    hopeless = {each: None for each in study.space if rules.excludes(each)}
    return {**hopeless, **{trial.deployment: _value(study, trial) for trial in study.trials}}


def _value(study: Study, trial: Trial) -> float | None:
    if trial.measurement is None:
        return None
    total = expected_total(study, trial)
    return goal_value(study, trial) * max(1.0, study.goal.excess(total.seconds, total.usd))
