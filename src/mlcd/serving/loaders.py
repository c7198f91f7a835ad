"""Loads a model as a function from plain data to plain data. Used only in a model's own process."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mlcd.serving.kinds import Kind

Predict = Callable[[Any, str], Any]  # inputs and the kind of number that they are


def load(kind: Kind, path: Path) -> Predict:
    """The model in a file."""
    return _LOADERS[kind](path)


def _predict_py(path: Path) -> Predict:
    """The user's own function, in a module that finds what lies beside it."""
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location("predict", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["predict"] = module
    spec.loader.exec_module(module)
    own = getattr(module, "predict", None)
    if not callable(own):
        raise TypeError("predict.py has no function predict(inputs)")
    return lambda inputs, _dtype: plain(own(inputs))


def _torch_export(path: Path) -> Predict:
    import torch

    load_export: Any = torch.export.load
    return _torch(load_export(str(path)).module())


def _torchscript(path: Path) -> Predict:
    import torch

    load_script: Any = torch.jit.load
    model = load_script(str(path), map_location="cpu")
    model.eval()
    return _torch(model)


def _torch(model: Any) -> Predict:
    import torch

    def predict(inputs: Any, dtype: str) -> Any:
        with torch.no_grad():
            return plain(model(torch.tensor(inputs, dtype=getattr(torch, dtype))))

    return predict


def _onnx(path: Path) -> Predict:
    import numpy
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    first = session.get_inputs()[0].name

    def predict(inputs: Any, dtype: str) -> Any:
        answers = session.run(None, {first: numpy.asarray(inputs, dtype=dtype)})
        return plain(answers[0] if len(answers) == 1 else answers)

    return predict


def _sklearn(path: Path) -> Predict:
    import numpy

    model = _unpickled(path)
    return lambda inputs, dtype: plain(model.predict(numpy.asarray(inputs, dtype=dtype)))


def _unpickled(path: Path) -> Any:
    try:
        import joblib
    except ModuleNotFoundError:
        import pickle

        return pickle.loads(path.read_bytes())  # noqa: S301  # the user's own model, in its own process
    return joblib.load(path)


_LOADERS: dict[Kind, Callable[[Path], Predict]] = {
    Kind.PREDICT_PY: _predict_py,
    Kind.TORCH_EXPORT: _torch_export,
    Kind.TORCHSCRIPT: _torchscript,
    Kind.ONNX: _onnx,
    Kind.SKLEARN: _sklearn,
}


def plain(data: Any) -> Any:
    """What JSON can hold of it: tensors and arrays become lists."""
    if data is None or isinstance(data, bool | int | float | str):
        return data
    if isinstance(data, dict):
        return {str(key): plain(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [plain(value) for value in data]
    if hasattr(data, "tolist"):
        return plain(data.tolist())
    raise TypeError(f"the model answered with a {type(data).__name__}, which JSON cannot hold")
