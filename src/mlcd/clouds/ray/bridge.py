"""A process that is connected to the cluster and answers questions: `python -m mlcd.clouds.ray.bridge OPTIONS`.

A line of JSON asks, a line of JSON answers; it ends when nobody can ask any more.

    {"ask": "nodes"}                    → {"answer": [as ray.nodes() lists them]}
    {"ask": "owned"}                    → {"answer": [mlcd.clouds.ray.placement_groups.Group, …]}
    {"ask": "release", "task": "…"}     → {"answer": null}
    anything that cannot be had         → {"error": "…", "hint": "…"}
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from typing import Any

from mlcd.clouds.ray.machines import RayMachines
from mlcd.clouds.ray.placement_groups import groups
from mlcd.clouds.ray.session import connect
from mlcd.clouds.remote.base import NoNotes
from mlcd.errors import MlcdError


def main() -> None:
    """Answer until standard input ends."""
    options = json.loads(sys.argv[1])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever Ray prints is no answer
    for line in sys.stdin:
        answers.write(json.dumps(_answer(options, json.loads(line))) + "\n")
        answers.flush()


def _answer(options: dict[str, Any], question: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"answer": _look_up(options, question)}
    except MlcdError as error:
        return {"error": error.message, "hint": error.hint}
    except Exception as error:  # Ray's errors have no common ancestor; the one who asks is told
        return {"error": f"Ray: {error!r}", "hint": ""}


def _look_up(options: dict[str, Any], question: dict[str, Any]) -> Any:
    ray = connect(options["address"])
    if question["ask"] == "nodes":
        return [{key: row.get(key) for key in ("Alive", "Resources", "Labels")} for row in ray.nodes()]
    if question["ask"] == "owned":
        return [asdict(group) for group in groups(ray)]
    machines = RayMachines(options, NoNotes())
    machines.release(machines.find(question["task"]))
    return None


if __name__ == "__main__":
    main()
