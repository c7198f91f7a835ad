"""Online learning: whenever new files of data have come, the model learns from them; in between nothing runs.

python workflow.py INBOX [CLOUD]        learns from what is in the folder INBOX, then waits for more until Ctrl-C
python workflow.py --demo [CLOUD]       with three arrivals of its own making
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

import mlcd
from mlcd.adapt.changes import Conditions
from mlcd.workflow import Phase, Workflow

PASSES = 200  # through the data of an arrival
LOOK_SECONDS = 5.0
ARRIVALS = (300, 300, 800)  # images, in the demonstration


def main(inbox: str, cloud: str = "functions") -> None:
    flow = Workflow(mlcd.Client(), Path(__file__).with_name("job.yaml"), cloud)
    if inbox == "--demo":
        demonstrate(flow)
        return
    seen: set[Path] = set()
    while True:
        came = set(Path(inbox).glob("*.npz")) - seen
        if came:
            learn(flow, came)
            seen |= came
        time.sleep(LOOK_SECONDS)  # nothing of it runs now, and nothing costs


def learn(flow: Workflow, files: set[Path]) -> Phase:
    """One phase over what has come, from the model so far."""
    images = sum(len(np.load(file)["labels"]) for file in files)
    conditions = Conditions(samples=PASSES * images)
    mounts = {f"data/{file.name}": str(file.resolve()) for file in sorted(files)}
    phase = flow.run(conditions, work={"samples": PASSES * images}, file_mounts=mounts, envs={"DATA": "data"})
    metrics = json.loads((phase.model / "metrics.json").read_text())
    print(
        f"{images} images: {phase.deployment}, ${phase.usd:.5f}, "
        f"test accuracy {metrics['test_accuracy']:.3f}; {phase.why}"
    )
    return phase


def demonstrate(flow: Workflow) -> None:
    digits = load_digits()
    order = np.random.default_rng(1).permutation(len(digits.target))[:1437]
    with tempfile.TemporaryDirectory() as folder:
        first = 0
        for number, count in enumerate(ARRIVALS):
            part = order[first : first + count]
            first += count
            file = Path(folder, f"arrival-{number}.npz")
            np.savez(file, images=digits.data[part] / 16.0, labels=digits.target[part])
            learn(flow, {file})
    print(f"In all ${flow.usd:.5f}; the model is in {flow.phases[-1].model}")


if __name__ == "__main__":
    main(*sys.argv[1:])
