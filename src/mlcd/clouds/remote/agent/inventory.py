"""What there is for the runner to download."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mlcd.worker.checkpoints import complete_checkpoints
from mlcd.worker.trees import files_inside


def inventory(root: Path, ended: bool) -> dict[str, Any]:
    """Sizes of what grows, names of what is committed and, once all is over, what is handed back."""
    outputs = root / "outputs"
    files = list(files_inside(outputs)) if ended else []
    return {
        "log": _size(root / "log"),
        "progress": {path.name: _size(path) for path in sorted((root / "progress").glob("rank-*.jsonl"))},
        "checkpoints": [one.path.name for one in complete_checkpoints(root / "checkpoints")],
        "snapshots": [one.path.name for one in complete_checkpoints(root / "snapshots")],
        "outputs": {str(path.relative_to(outputs)): _size(path) for path in files},
    }


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
