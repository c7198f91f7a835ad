"""Whether mlcd will see how far a program is, as far as its files tell before anything is started.

PyTorch and Keras are counted inside the program. A loop of TensorFlow's or JAX's own leaves nothing to see: what happens between two
steps is compiled. Such a program says by itself how far it is.
"""

from __future__ import annotations

import re

from mlcd.core.job import Job
from mlcd.core.scripts import python_files

_SAYS = re.compile(
    r"^\s*(?:import|from)\s+(?:mlcd|torch)\b", re.MULTILINE
)  # by mlcd's functions; or torch, which is counted
_KERAS_TRAINS = re.compile(r"\.(?:fit|train_on_batch)\(")
_KERAS_ELSEWHERE = re.compile(r"KERAS_BACKEND\W+(?:\w+\W+)?(?:jax|torch)\b")
_NAMES = {"tensorflow": "TensorFlow", "jax": "JAX", "mxnet": "MXNet"}
_TO_DO = (
    "Put `mlcd.steps(…)` around its loop over batches, call `mlcd.report(samples=…)`, "
    "or set `progress` to a pattern for its log."
)


def uncounted(job: Job) -> str | None:
    """What to do about a program whose steps nobody will see; None: they are seen, or nothing is known of it."""
    if job.platform not in _NAMES or job.progress.pattern:
        return None
    texts = [text for _, text in python_files(job.workdir)]
    if not texts or any(_SAYS.search(text) for text in texts) or (job.platform == "tensorflow" and _is_keras(texts)):
        return None
    counted = "only `fit` of Keras on TensorFlow is" if job.platform == "tensorflow" else "no loop of it is"
    return f"run: nothing says how far this {_NAMES[job.platform]} program is; {counted} counted by itself. {_TO_DO}"


def _is_keras(texts: list[str]) -> bool:
    """Whether Keras trains, on TensorFlow."""
    return any(_KERAS_TRAINS.search(text) for text in texts) and not any(
        _KERAS_ELSEWHERE.search(text) for text in texts
    )
