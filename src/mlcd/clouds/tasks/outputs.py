"""What the program hands back: all that it put into MLCD_OUTPUT_DIR, and the model files in its working copy."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from fnmatch import fnmatch
from pathlib import Path

from mlcd.clouds.tasks.copies import Signatures, signatures
from mlcd.worker.trees import in_words, is_below, is_file_inside

MODEL_FILES = ("*.pt", "*.pth", "*.safetensors", "*.onnx", "*.pkl", "*.joblib", "*.keras", "*.h5", "*.npz")


def collect_outputs(
    copy: Path, before: Signatures, patterns: Sequence[str], into: Path, say: Callable[[str], None]
) -> list[Path]:
    """Move every new or changed file that matches into the outputs; what the program put there itself stays."""
    changed = [name for name, signature in signatures(copy).items() if before.get(name) != signature]
    wanted = [name for name in changed if matches(name, patterns or MODEL_FILES)]
    root = Path(os.path.realpath(copy))
    inside = [name for name in wanted if is_file_inside(copy / name, root)]
    astray = [name for name in wanted if name not in set(inside)]
    if astray:
        say(f"not handed back, because it leads out of the working copy or is no file: {in_words(astray)}")
    inside.sort(key=lambda name: not (copy / name).is_symlink())  # a link is copied while its aim is there
    return [target for name in inside if (target := _move(copy / name, into / name, into))]


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Whether a relative path fits a pattern as a whole, by its last part, or by a folder that is named."""
    last = name.rsplit("/", 1)[-1]
    for written in patterns:
        pattern = written.removeprefix("./")
        folder = pattern.rstrip("/")
        if fnmatch(name, pattern) or fnmatch(last, pattern) or name.startswith(f"{folder}/"):
            return True
    return False


def _move(source: Path, target: Path, into: Path) -> Path | None:
    """Put a file among the outputs, unless the program put something in its place, or a link on the way to it."""
    taken = target.exists() or target.is_symlink()
    if taken or not is_below(os.path.realpath(target.parent), Path(os.path.realpath(into))):
        return None
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_symlink():
        shutil.copyfile(source, target)  # the link's aim may be gone tomorrow
    else:
        shutil.move(source, target)  # the working copy goes anyway; within one disk this takes no room
    return target
