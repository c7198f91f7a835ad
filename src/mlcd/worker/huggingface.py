"""For the Trainer of Hugging Face's transformers.

from mlcd.worker.huggingface import MlcdCallback

trainer = Trainer(..., callbacks=[MlcdCallback()])
trainer.train(resume_from_checkpoint=mlcd.last_checkpoint())
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from mlcd.worker.api import checkpoint, checkpoint_due, report, stopping
from mlcd.worker.guard import guard
from mlcd.worker.loader_workers import survive_sigterm
from mlcd.worker.session import current

try:
    from transformers import TrainerCallback
except ImportError as error:
    raise ImportError("MlcdCallback needs transformers: pip install transformers") from error


class MlcdCallback(TrainerCallback):  # type: ignore[misc, unused-ignore]  # Any where it is not installed
    """Reports steps, samples and logged metrics; keeps the Trainer's checkpoints; stops it, saved, when asked to."""

    def __init__(self) -> None:
        self._seen_step = 0

    @guard(None)
    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Count from here: a resumed Trainer goes on from an earlier step."""
        self._seen_step = state.global_step
        survive_sigterm(kwargs.get("train_dataloader"))
        stopping()  # from now on SIGTERM is a wish to end

    @guard(None)
    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Count the step, save if it is time, and end with a checkpoint if that is due."""
        steps = state.global_step - self._seen_step
        self._seen_step = state.global_step
        if current().env.started_by_mlcd:
            current().counts.add_loop(steps, steps * args.train_batch_size * args.gradient_accumulation_steps)
            current().start()
        if stopping():
            control.should_save = True
            control.should_training_stop = True
        elif getattr(args, "save_strategy", "") == "no" and checkpoint_due():  # else it saves when the user wants
            control.should_save = True

    @guard(None)
    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        """Report what the Trainer logs."""
        metrics = {name: value for name, value in (logs or {}).items() if name not in ("step", "samples")}
        report(**metrics)

    @guard(None)
    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Commit the checkpoint that the Trainer has just written."""
        saved = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        if state.is_world_process_zero and saved.is_dir() and current().env.checkpoint_dir is not None:
            with checkpoint(step=state.global_step) as folder:
                shutil.copytree(saved, folder, dirs_exist_ok=True, copy_function=_link_or_copy)


def _link_or_copy(source: str, target: str) -> str:
    """Share the bytes where the file system can: the Trainer writes a checkpoint's files once and never changes them."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
    return target
