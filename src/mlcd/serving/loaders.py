"""Loads a model as a function from plain data to plain data. Used only in a model's own process."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mlcd.serving.kinds import Kind

Predict = Callable[[Any, str], Any]  # inputs and the kind of number that they are

_BACKENDS = ("tensorflow", "torch", "jax")  # of Keras
_MAIN_SIGNATURE = "serving_default"


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


def _keras(path: Path) -> Predict:
    """A whole model, as `model.save("model.keras")` writes it; any backend can read it."""
    backend = next((name for name in _BACKENDS if importlib.util.find_spec(name)), None)
    if backend is None or not importlib.util.find_spec("keras"):
        raise ModuleNotFoundError("a Keras model needs keras and a backend: pip install 'mlcd[tensorflow]'")
    os.environ["KERAS_BACKEND"] = backend
    import keras
    import numpy

    # The user's own model, in its own process: it may hold functions, as a predict.py does.
    model = keras.saving.load_model(path, compile=False, safe_mode=False)

    def predict(inputs: Any, dtype: str) -> Any:
        given = _by_name(inputs, lambda _name, values: numpy.asarray(values, dtype=dtype))
        return plain(keras.tree.map_structure(keras.ops.convert_to_numpy, model(given, training=False)))

    return predict


def _saved_model(path: Path) -> Predict:
    """A folder of TensorFlow, as `model.export(…)` and `tf.saved_model.save` write it; it knows its inputs' names and dtypes."""
    if not importlib.util.find_spec("tensorflow"):
        raise ModuleNotFoundError("a SavedModel needs TensorFlow: pip install 'mlcd[tensorflow]'")
    import tensorflow

    model = tensorflow.saved_model.load(str(path.parent))
    specs = _signature(model).structured_input_signature[1]

    def predict(inputs: Any, _dtype: str) -> Any:
        named = inputs if isinstance(inputs, dict) else dict.fromkeys(specs, inputs)
        if set(named) != set(specs) or (len(specs) > 1 and named is not inputs):
            raise TypeError(f"the model takes inputs by name: {', '.join(sorted(specs))}")
        given = _by_name(named, lambda name, values: tensorflow.constant(values, dtype=specs[name].dtype))
        answers = {name: answer.numpy() for name, answer in _signature(model)(**given).items()}
        return plain(next(iter(answers.values())) if len(answers) == 1 else answers)

    return predict


def _signature(model: Any) -> Any:
    """The function of a SavedModel that serves: the one by that name, or the only one. It does not keep the model alive."""
    found = dict(model.signatures)
    if _MAIN_SIGNATURE not in found and len(found) != 1:
        raise TypeError(f"the SavedModel has no signature {_MAIN_SIGNATURE}; it has: {', '.join(found) or 'none'}")
    return found.get(_MAIN_SIGNATURE) or next(iter(found.values()))


def _by_name(inputs: Any, convert: Callable[[str, Any], Any]) -> Any:
    """The one input of a model, or each of several that come with their names."""
    if isinstance(inputs, dict):
        return {name: convert(name, values) for name, values in inputs.items()}
    return convert("", inputs)


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
    Kind.KERAS: _keras,
    Kind.SAVED_MODEL: _saved_model,
    Kind.SKLEARN: _sklearn,
}


def plain(data: Any) -> Any:
    """What JSON can hold of it: tensors and arrays become lists."""
    if data is None or isinstance(data, bool | int | float | str):
        return data
    if isinstance(data, bytes):  # TensorFlow's texts
        return data.decode(errors="replace")
    if isinstance(data, dict):
        return {str(key): plain(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [plain(value) for value in data]
    if hasattr(data, "tolist"):
        return plain(data.tolist())
    raise TypeError(f"the model answered with a {type(data).__name__}, which JSON cannot hold")
