"""What the program hands back: all that it put into MLCD_OUTPUT_DIR, and the model files in its working copy."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path

from mlcd.clouds.tasks.copies import Signatures, signatures

MODEL_FILES = ("*.pt", "*.pth", "*.safetensors", "*.onnx", "*.pkl", "*.joblib", "*.keras", "*.h5", "*.npz")


def collect_outputs(copy: Path, before: Signatures, patterns: Sequence[str], into: Path) -> list[Path]:
    """Move every new or changed file that matches into the outputs; what the program put there itself stays."""
    changed = [name for name, signature in signatures(copy).items() if before.get(name) != signature]
    wanted = [name for name in changed if matches(name, patterns or MODEL_FILES)]
    return [target for name in wanted if (target := _move(copy / name, into / name))]


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Whether a relative path fits a pattern as a whole, by its last part, or by a folder that is named."""
    last = name.rsplit("/", 1)[-1]
    for written in patterns:
        pattern = written.removeprefix("./")
        folder = pattern.rstrip("/")
        if fnmatch(name, pattern) or fnmatch(last, pattern) or name.startswith(f"{folder}/"):
            return True
    return False


def _move(source: Path, target: Path) -> Path | None:
    if target.exists():
        return None
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_symlink():
        shutil.copyfile(source, target)  # the link's aim may be gone tomorrow
    else:
        shutil.move(source, target)  # the working copy goes anyway; within one disk this takes no room
    return target
