"""Copied as sitecustomize.py to where PYTHONPATH finds it: watches for torch, Keras and Spark, and lets `import mlcd` work.

Python runs it at the start of every program of the job, so it does next to nothing: it imports no part of mlcd before the
program imports one of these, and then runs the sitecustomize that it hides, if there is one.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120  # pathlib would cost every program 5 ms
_ABSTRACT = str(sys.modules["_collections_abc"].__file__)
# Module of the program → module and function of mlcd that hook into it.
_HOOKS = {
    "torch.optim.optimizer": "mlcd.worker.pytorch.hooks:hook_optimizers",
    "torch.utils.data.dataloader": "mlcd.worker.pytorch.hooks:hook_loaders",
    "torch.serialization": "mlcd.worker.pytorch.hooks:hook_saving",
    "torch.distributed.distributed_c10d": "mlcd.sync.pytorch.hook:hook_process_groups",
    "keras.src.backend.tensorflow.trainer": "mlcd.worker.keras_fit.train_function:hook_trainer",
    "keras.src.callbacks.callback_list": "mlcd.worker.keras_fit.callbacks:hook_callbacks",
    "pyspark.ml.base": "mlcd.worker.spark:hook_estimators",
}


PLACES = (
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "NODE_RANK",
    "MASTER_ADDR",
    "SKYPILOT_NODE_RANK",
    "SKYPILOT_NODE_IPS",
    "SKYPILOT_NUM_NODES",
    "TF_CONFIG",
    "JAX_PROCESS_ID",
    "MLCD_ROLE",
    "MLCD_SERVER_ADDRESSES",
)
_PLACES = frozenset(name.encode() for name in PLACES)
_OURS = (_HERE, "/mlcd/worker/", "/mlcd/sync/")
_LIBRARIES = ("/site-packages/", "/dist-packages/")
_STANDARD = os.path.dirname(os.__file__)  # noqa: PTH120  # as above


class _Watcher:
    """A finder that finds nothing: it only takes note when one of the modules above is about to be imported."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name not in _HOOKS or not _wanted(_HOOKS[name]):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            _hook_after_import(spec.loader, name)
        return spec


def _hook_after_import(loader: Any, name: str) -> None:
    execute = loader.exec_module

    def execute_and_hook(module: Any) -> None:
        execute(module)
        if module.__name__ == name:  # modules of one zip file share their loader
            _hook(module, _HOOKS[name])

    loader.exec_module = execute_and_hook


def _exchanges(hook: str) -> bool:
    return hook.startswith("mlcd.sync.")


def _wanted(hook: str) -> bool:
    return bool(os.environ.get("MLCD_SYNC_URL" if _exchanges(hook) else "MLCD_PROGRESS_DIR"))


def _hook(module: Any, hook: str) -> None:
    where, _, name = hook.partition(":")
    try:
        getattr(importlib.import_module(where), name)(module)
    except Exception as error:  # the program goes on uncounted, whatever its framework or its mlcd is
        if _exchanges(hook):
            raise  # without it the workers would wait for each other for ever
        sys.stderr.write(f"mlcd: steps are not counted: {error!r}\n")


def _note_places_read() -> None:
    """Take note when the program or one of its libraries asks which of several ranks it is.

    A program that does knows of the other nodes (see mlcd.worker.sharing).
    """
    encode: Any = os.environ.encodekey  # of every name that is looked up

    def noting(name: Any) -> Any:
        encoded = encode(name)
        if encoded in _PLACES:
            noting.places_read.add(_reader(sys._getframe(1)))  # type: ignore[attr-defined]  # set below
        return encoded

    noting.places_read = set()  # type: ignore[attr-defined]  # where mlcd.worker.sharing finds it
    os.environ.encodekey = noting  # type: ignore[attr-defined, unused-ignore]


def _reader(frame: Any) -> str:
    """Who reads a variable, past `os` and what it is made of: 'program', 'library', or nobody who matters."""
    if frame.f_code.co_name != "__getitem__":
        return ""
    while frame is not None and frame.f_code.co_filename.startswith(("<frozen", os.__file__, _ABSTRACT)):
        frame = frame.f_back
    file = frame.f_code.co_filename if frame is not None else ""
    if any(part in file for part in _OURS):
        return ""
    if any(part in file for part in _LIBRARIES):
        return "library"
    return "program" if file and not file.startswith(_STANDARD) else ""


def _run_hidden() -> None:
    """Run the sitecustomize that Python would have run without ours; its errors are Python's to show."""
    places = [place for place in sys.path if os.path.abspath(place or ".") != _HERE]  # noqa: PTH100
    spec = PathFinder.find_spec("sitecustomize", places)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


def _start() -> None:
    if os.environ.get("MLCD_PROGRESS_DIR") or os.environ.get("MLCD_SYNC_URL"):
        sys.path.append(os.path.join(_HERE, "lib"))  # noqa: PTH118  # last: an mlcd that is installed comes first
        sys.meta_path.insert(0, _Watcher)
    if os.environ.get("WORLD_SIZE", "1") != "1":
        _note_places_read()
    _run_hidden()


if __name__ == "sitecustomize":
    _start()
