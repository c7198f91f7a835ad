"""Small jobs on this computer: a program that needs nothing but the standard library and mlcd's worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

PROGRAM = """
import json, os, time
import mlcd

done = 0
saved = mlcd.last_checkpoint()
if saved is not None:
    done = json.loads((saved / "state.json").read_text())["done"]
total = int(os.environ["MLCD_WORK_SAMPLES"])
rank = int(os.environ["RANK"])
local = [[rank] * 10] * max(0, (total - done) // 10)
for number, batch in enumerate(mlcd.steps(local)):
    time.sleep(0.02)
    done += len(batch)
    mlcd.report(loss=1.0 / done)
    if number % 25 == 24:
        with mlcd.checkpoint() as folder:
            (folder / "state.json").write_text(json.dumps({"done": done}))
if mlcd.stopping():
    with mlcd.checkpoint() as folder:
        (folder / "state.json").write_text(json.dumps({"done": done}))
(os.path.exists(os.environ["MLCD_OUTPUT_DIR"]) or os.makedirs(os.environ["MLCD_OUTPUT_DIR"]))
with open(os.path.join(os.environ["MLCD_OUTPUT_DIR"], "model.json"), "w") as stream:
    json.dump({"done": done}, stream)
print("trained", done)
"""

MakeJob = Callable[..., dict[str, Any]]
