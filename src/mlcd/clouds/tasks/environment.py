"""The environment that a node's programs get, on this computer, on machines elsewhere and in functions.

It travels: standard library only, Python 3.9 or newer.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

# Threads that wait must not spin: on a computer that has other work to do, two spinning threads of a GRU were
# twelve times slower than two that sleep (0.47 against 5.7 steps/s), and on a quiet one it hardly shows.
POLITE_THREADS = {"OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0"}


def node_environment(
    around: Mapping[str, str],
    own: Mapping[str, str],
    modules: Sequence[str],
    *,
    copy: Path,
    progress: Path,
    checkpoints: Path,
    outputs: Path,
) -> dict[str, str]:
    """What every program of a node gets; the platform's own variables go on top.

    `around` is the environment of whoever starts them, without what was meant for that one alone, and `own` the task's
    variables and secrets. `modules` is where mlcd's worker lies: before the program's own module path, not instead of it.
    """
    env = {
        **POLITE_THREADS,
        **around,
        "PYTHONUNBUFFERED": "1",  # a log that is read while it is written
        **own,
    }
    return {
        **env,
        "PYTHONPATH": os.pathsep.join(part for part in (*modules, env.get("PYTHONPATH")) if part),
        "MLCD_PROGRESS_DIR": str(progress),
        "MLCD_CHECKPOINT_DIR": str(checkpoints),
        "MLCD_OUTPUT_DIR": str(outputs),
        "MLCD_WORKDIR": str(copy),
    }
