"""What the training made, put where the user finds it."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from mlcd.clouds.checkpoints import newest_complete
from mlcd.clouds.tasks.formats import cut_off
from mlcd.clouds.tasks.outputs import matches
from mlcd.core.task import TaskFolder
from mlcd.engine.context import JobContext
from mlcd.engine.tasks import checkpoint_folder, task_folder
from mlcd.errors import StoreError
from mlcd.worker.trees import copy_inside, files_inside, in_words


def deliver(context: JobContext, task_id: str) -> str:
    """Copy what the program handed back into the job's model folder, whole or not at all."""
    made = _made(context, task_id)
    if made is None:
        context.add_event(
            "warning", "The program left no model: nothing in $MLCD_OUTPUT_DIR, no file that `outputs` names"
        )
        return ""
    model = model_folder(context.folder)
    try:
        left_out = _copy_whole(made, model)
    except OSError as error:
        raise StoreError(
            f"The training is done, but its model cannot be copied to {model}: {error}",
            f"Is the disk full? Make room, then `mlcd resume {context.job_id}` copies it; nothing is trained again.",
        ) from error
    if left_out:
        context.add_event(
            "warning",
            f"Not in the model, because it leads out of its folder or is no file: {in_words(left_out)}",
        )
    return str(model)


def _copy_whole(made: Path, model: Path) -> list[str]:
    """Put a copy in place in one step; gives what was left out because it leads out of the folder."""
    fresh = model.with_name("model.new")
    shutil.rmtree(fresh, ignore_errors=True)
    left_out = copy_inside(made, fresh)
    shutil.rmtree(model, ignore_errors=True)
    fresh.rename(model)
    return left_out


def model_folder(job_folder: Path) -> Path:
    """Where the model of a job lies once it is done."""
    return job_folder / "model"


def _made(context: JobContext, task_id: str) -> Path | None:
    """The outputs, or else the newest checkpoint."""
    return outputs_of(context, task_id) or newest_complete(checkpoint_folder(context.folder))


def owes_outputs(context: JobContext, task_id: str, patterns: Sequence[str]) -> bool:
    """Whether a file that a task handed back is cut off, or one that the job names is missing."""
    outputs = outputs_of(context, task_id)
    files = [] if outputs is None else list(files_inside(outputs))
    names = [file.relative_to(outputs).as_posix() for file in files if outputs is not None]
    missing = [pattern for pattern in patterns if not any(matches(name, [pattern]) for name in names)]
    return bool(missing) or any(map(cut_off, files))


def outputs_of(context: JobContext, task_id: str) -> Path | None:
    """The outputs of a task; None: it has handed nothing back."""
    outputs = TaskFolder(task_folder(context.folder, task_id)).outputs
    there = outputs.is_dir() and not outputs.is_symlink() and any(outputs.iterdir())
    return outputs if there else None
