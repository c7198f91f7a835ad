"""The parameter store between the nodes of a task on this computer: shared memory, so that mlcd.sync works as on functions.

It takes no memory before a program joins. The nodes reach each other, so torch and the like keep their own ways: only
mlcd.sync looks at MLCD_SYNC_STORE.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from mlcd.core.machines import Deployment


def exchange_environment(deployment: Deployment, root: Path) -> dict[str, str]:
    """What programs on several nodes are told; a single node needs no store."""
    return {"MLCD_SYNC_STORE": f"shm://{_name(root)}"} if deployment.nodes > 1 else {}


def forget_exchange(root: Path) -> None:
    """Free what the programs of this task have left, however they ended; twice is quiet."""
    from mlcd.sync import remove_segments  # NumPy comes with it: only when a task is over

    remove_segments(_name(root))


def _name(root: Path) -> str:
    """One for each task's folder, short enough for a name of shared memory."""
    return f"local-{hashlib.sha256(str(root).encode()).hexdigest()[:24]}"
