"""Dynamic batching: the batch grows from phase to phase, and the functions follow where it pays.

python workflow.py [CLOUD]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import mlcd
from mlcd.adapt.changes import Conditions
from mlcd.workflow import Workflow

SCHEDULE = (32, 128, 512)
EPOCHS, IMAGES = 60, 1437


def main(cloud: str = "functions") -> None:
    flow = Workflow(mlcd.Client(), Path(__file__).with_name("job.yaml"), cloud)
    for batch_size in SCHEDULE:
        conditions = Conditions(batch_size=batch_size, samples=EPOCHS * IMAGES)
        phase = flow.run(conditions, batch_size=batch_size)
        metrics = json.loads((phase.model / "metrics.json").read_text())
        print(
            f"batch {batch_size}: {phase.deployment}, {phase.seconds:.0f} s, ${phase.usd:.5f}, "
            f"test accuracy {metrics['test_accuracy']:.3f}; {phase.why}"
        )
    print(f"In all ${flow.usd:.5f}; the model is in {flow.phases[-1].model}")


if __name__ == "__main__":
    main(*sys.argv[1:])
