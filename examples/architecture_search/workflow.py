"""Architecture search: a controller proposes networks, each is trained for a while, and it learns from how good they are.

    python workflow.py [TRIES] [CLOUD]

The controller is a small relative of ENAS: a policy over widths that is moved towards what did better than the average so
far (REINFORCE with a baseline). Every network that it proposes is a job of its own on functions that suit its size.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import mlcd
from mlcd.adapt.changes import Conditions
from mlcd.workflow import Workflow

WIDTHS = (8, 32, 128, 512)
EPOCHS, IMAGES = 60, 1437
SIZE_PRICE = 0.02  # of accuracy, for ten times the parameters: a smaller network that is as good is better


@dataclass
class Controller:
    """Chances of each width, moved by rewards."""

    random: np.random.Generator
    scores: np.ndarray = field(default_factory=lambda: np.zeros(len(WIDTHS)))
    baseline: float | None = None

    @property
    def chances(self) -> np.ndarray:
        raised = np.exp(self.scores - self.scores.max())
        return raised / raised.sum()

    def propose(self) -> int:
        return int(self.random.choice(len(WIDTHS), p=self.chances))

    def learn(self, choice: int, reward: float, rate: float = 20.0) -> None:
        baseline = reward if self.baseline is None else self.baseline
        step = -self.chances
        step[choice] += 1.0
        self.scores += rate * (reward - baseline) * step
        self.baseline = 0.7 * baseline + 0.3 * reward


def main(tries: str = "6", cloud: str = "functions") -> None:
    controller = Controller(np.random.default_rng(0))
    best: tuple[float, int] = (0.0, WIDTHS[0])
    spent = 0.0
    flow = Workflow(mlcd.Client(), Path(__file__).with_name("job.yaml"), cloud, hand_on=False)
    for number in range(int(tries)):
        choice = controller.propose()
        width = WIDTHS[choice]
        parameters = 64 * width + width + 10 * width + 10
        conditions = Conditions(parameters=parameters, samples=EPOCHS * IMAGES)
        phase = flow.run(conditions, envs={"HIDDEN": str(width)})
        accuracy = json.loads((phase.model / "metrics.json").read_text())["test_accuracy"]
        reward = accuracy - SIZE_PRICE * float(np.log10(parameters))
        controller.learn(choice, reward)
        best = max(best, (reward, width))
        spent = flow.usd
        print(
            f"{number + 1}: width {width} on {phase.deployment}, ${phase.usd:.5f}, accuracy {accuracy:.3f}; {phase.why}"
        )
    chances = ", ".join(f"{width}: {chance:.2f}" for width, chance in zip(WIDTHS, controller.chances, strict=True))
    print(f"Best: width {best[1]}. Chances by width: {chances}. In all ${spent:.5f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
