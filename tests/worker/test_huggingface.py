import importlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from mlcd.worker import complete_checkpoints
from worker.programs import finish, start
from worker.sessions import Inside, lines

REAL = all(importlib.util.find_spec(name) for name in ("transformers", "accelerate", "torch"))


@pytest.fixture
def callback(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The callback, on a stand-in for transformers that has its interface and loads at once."""
    stand_in = ModuleType("transformers")
    stand_in.TrainerCallback = type("TrainerCallback", (), {})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "transformers", stand_in)
    monkeypatch.delitem(sys.modules, "mlcd.worker.huggingface", raising=False)
    yield importlib.import_module("mlcd.worker.huggingface").MlcdCallback()
    sys.modules.pop("mlcd.worker.huggingface", None)


def trainer(folder: Path, step: int) -> tuple[Any, Any, Any]:
    """Arguments, state and control as the Trainer hands them to its callbacks."""
    args = SimpleNamespace(train_batch_size=4, gradient_accumulation_steps=2, output_dir=str(folder))
    state = SimpleNamespace(global_step=step, is_world_process_zero=True)
    return args, state, SimpleNamespace(should_save=False, should_training_stop=False)


def test_steps_count_from_where_a_resumed_trainer_began(inside: Inside, tmp_path: Path, callback: Any) -> None:
    session = inside()
    args, state, control = trainer(tmp_path, step=100)
    callback.on_train_begin(args, state, control)
    for _ in range(3):
        state.global_step += 1
        callback.on_step_end(args, state, control)
    assert session.counts.now[1:] == (3, 24)
    assert not control.should_training_stop


def test_the_trainer_saves_and_stops_when_the_work_is_done(inside: Inside, tmp_path: Path, callback: Any) -> None:
    inside(MLCD_WORK_SAMPLES=8)
    args, state, control = trainer(tmp_path, step=0)
    callback.on_train_begin(args, state, control)
    state.global_step = 1
    callback.on_step_end(args, state, control)
    assert control.should_save
    assert control.should_training_stop


@pytest.mark.parametrize(("strategy", "saves"), [("no", True), ("steps", False)])
def test_a_trainer_that_does_not_save_by_itself_saves_when_mlcd_says_so(
    inside: Inside, tmp_path: Path, callback: Any, strategy: str, saves: bool
) -> None:
    inside(MLCD_SAVE_SECONDS=1e-9)
    args, state, control = trainer(tmp_path, step=0)
    args.save_strategy = strategy
    callback.on_train_begin(args, state, control)
    for _ in range(2):
        state.global_step += 1
        callback.on_step_end(args, state, control)
    assert control.should_save is saves
    assert not control.should_training_stop


def test_what_the_trainer_saves_is_committed(inside: Inside, tmp_path: Path, callback: Any) -> None:
    inside()
    args, state, control = trainer(tmp_path, step=5)
    (tmp_path / "checkpoint-5").mkdir()
    (tmp_path / "checkpoint-5" / "model.bin").write_text("weights")
    callback.on_log(args, state, control, logs={"loss": 0.5, "step": 5, "note": "text"})
    callback.on_save(args, state, control)
    (found,) = complete_checkpoints(tmp_path / "checkpoints")
    assert (found.path / "model.bin").read_text() == "weights"
    assert found.facts.metrics == {"loss": 0.5}


def test_a_trainer_that_is_not_as_expected_goes_on(inside: Inside, callback: Any) -> None:
    inside()
    callback.on_train_begin(None, None, None)
    callback.on_step_end(None, None, None)
    callback.on_save(None, None, None)


def test_without_transformers_the_install_line_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    monkeypatch.delitem(sys.modules, "mlcd.worker.huggingface", raising=False)
    with pytest.raises(ImportError, match="pip install transformers"):
        importlib.import_module("mlcd.worker.huggingface")


@pytest.mark.slow
@pytest.mark.skipif(not REAL, reason="transformers and accelerate are not installed")
def test_the_real_trainer_is_counted_once_stopped_and_resumed(tmp_path: Path) -> None:
    program = """
    import torch, mlcd
    from mlcd.worker.huggingface import MlcdCallback
    from transformers import Trainer, TrainingArguments

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def forward(self, x, labels):
            return {"loss": ((self.layer(x).squeeze(-1) - labels) ** 2).mean()}

    data = [{"x": torch.randn(4), "labels": torch.tensor(1.0)} for _ in range(64)]
    args = TrainingArguments(
        "out", per_device_train_batch_size=4, gradient_accumulation_steps=2, max_steps=20, logging_steps=2,
        save_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True,
    )
    trainer = Trainer(Model(), args, train_dataset=data, callbacks=[MlcdCallback()])
    last = mlcd.last_checkpoint()
    trainer.train(resume_from_checkpoint=str(last) if last else None)
    print("ended at", trainer.state.global_step)
    """
    assert "ended at 5" in finish(start(program, tmp_path, MLCD_WORK_SAMPLES=40))
    reported = lines(tmp_path / "progress")
    assert (reported[-1]["steps"], reported[-1]["samples"]) == (5, 40)
    assert any("loss" in line.get("metrics", {}) for line in reported)
    assert [one.facts.samples for one in complete_checkpoints(tmp_path / "checkpoints")] == [40]
    assert "ended at 8" in finish(start(program, tmp_path, MLCD_WORK_SAMPLES=64, MLCD_SAMPLES_BEFORE=40))
