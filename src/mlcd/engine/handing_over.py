"""What the training made, put where the user finds it."""

from __future__ import annotations

import shutil
from pathlib import Path

from mlcd.clouds.checkpoints import newest_complete
from mlcd.core.task import TaskFolder
from mlcd.engine.desk import Desk
from mlcd.engine.tasks import checkpoint_folder, task_folder
from mlcd.errors import StoreError


def hand_over(desk: Desk, task_id: str) -> str:
    """Copy what the program handed back into the job's model folder, whole or not at all."""
    made = _made(desk, task_id)
    if made is None:
        desk.say(
            "warning", "The program left no model: nothing in $MLCD_OUTPUT_DIR, no file that `outputs` names"
        )
        return ""
    model = model_folder(desk.folder)
    try:
        _copy_whole(made, model)
    except OSError as error:  # shutil.Error is one, and lists every file
        raise StoreError(
            f"The training is done, but its model cannot be copied to {model}: {error}",
            f"Is the disk full? Make room, then `mlcd resume {desk.job_id}` copies it; nothing is trained again.",
        ) from error
    return str(model)


def _copy_whole(made: Path, model: Path) -> None:
    fresh = model.with_name("model.new")
    shutil.rmtree(fresh, ignore_errors=True)
    shutil.copytree(made, fresh)
    shutil.rmtree(model, ignore_errors=True)
    fresh.rename(model)


def model_folder(job_folder: Path) -> Path:
    """Where the model of a job lies once it is done."""
    return job_folder / "model"


def _made(desk: Desk, task_id: str) -> Path | None:
    """The outputs, or else the newest checkpoint."""
    outputs = TaskFolder(task_folder(desk.folder, task_id)).outputs
    if outputs.is_dir() and any(outputs.iterdir()):
        return outputs
    return newest_complete(checkpoint_folder(desk.folder))
