"""Models of every kind are asked in their own process, and one that misbehaves harms nobody else."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from mlcd.errors import NotFoundError, TaskFailedError, TooManyRequestsError, UserError
from mlcd.serving.kinds import Kind, find_servable
from mlcd.serving.pool import ModelPool
from mlcd.serving.process import environment
from mlcd.settings import PredictSettings

pytestmark = pytest.mark.slow

QUICK = PredictSettings(request_seconds=3.0, idle_seconds=30.0, processes=2, memory_gib=1.0)
Pool = Callable[..., ModelPool]


@pytest.fixture
def pool() -> Iterator[Pool]:
    made: list[ModelPool] = []

    def make(**limits: Any) -> ModelPool:
        made.append(ModelPool(replace(QUICK, **limits)))
        return made[-1]

    yield make
    for each in made:
        each.close()


def model(folder: Path, program: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "predict.py").write_text(program)
    return folder


def test_a_predict_py_is_asked_and_finds_what_lies_beside_it(pool: Pool, tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("FACTOR = 3")
    model(
        tmp_path,
        "from helper import FACTOR\nprint('loading')\ndef predict(x): return [FACTOR * i for i in x]",
    )
    asked = pool()
    assert asked.predict("j", tmp_path, [1, 2]) == [3, 6]
    assert asked.predict("j", tmp_path, [3]) == [9]
    assert not list(tmp_path.glob("**/__pycache__"))


def test_a_model_is_loaded_once_and_not_in_this_process(pool: Pool, tmp_path: Path) -> None:
    model(tmp_path, "import os\ndef predict(x): return os.getpid()")
    asked = pool()
    pids = {asked.predict("j", tmp_path, []) for _ in range(3)}
    assert len(pids) == 1
    assert os.getpid() not in pids


def test_scikit_learn_is_asked(pool: Pool, tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    import joblib
    from sklearn.linear_model import LinearRegression

    joblib.dump(LinearRegression().fit([[0.0], [1.0]], [1.0, 3.0]), tmp_path / "model.joblib")
    assert pool().predict("j", tmp_path, [[2.0], [3.0]]) == pytest.approx([5.0, 7.0])


def test_torch_export_and_torchscript_are_asked(pool: Pool, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    layer = torch.nn.Linear(2, 1).eval()
    expected = layer(torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])).detach().tolist()
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    sizes = ({0: torch.export.Dim("batch")},)
    torch.export.save(torch.export.export(layer, (torch.zeros(2, 2),), dynamic_shapes=sizes), tmp_path / "a" / "m.pt2")
    torch.jit.script(layer).save(str(tmp_path / "b" / "m.pt"))
    asked = pool(memory_gib=4.0, start_seconds=120.0, request_seconds=60.0)
    for name, kind in (("a", Kind.TORCH_EXPORT), ("b", Kind.TORCHSCRIPT)):
        assert find_servable(tmp_path / name, name).kind is kind
        found = asked.predict(name, tmp_path / name, [[1, 2], [3, 4], [5, 6]])
        assert [row[0] for row in found] == pytest.approx([row[0] for row in expected])


def field(number: int, value: bytes | int) -> bytes:
    """A field of a protocol buffer, of at most 127 bytes."""
    if isinstance(value, int):
        return bytes([number << 3, value])
    return bytes([number << 3 | 2, len(value)]) + value


def doubling_onnx() -> bytes:
    """The smallest model: y = x + x, for a row of any length."""
    shape = field(2, field(1, field(2, b"n")))
    float_tensor = field(1, field(1, 1) + shape)
    node = field(1, b"x") + field(1, b"x") + field(2, b"y") + field(4, b"Add")
    ends = field(11, field(1, b"x") + field(2, float_tensor)) + field(12, field(1, b"y") + field(2, float_tensor))
    graph = field(1, node) + field(2, b"g") + ends
    return field(1, 8) + field(7, graph) + field(8, field(2, 13))


def test_onnx_is_asked(pool: Pool, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    (tmp_path / "model.onnx").write_bytes(doubling_onnx())
    assert pool(memory_gib=2.0, request_seconds=30.0).predict("j", tmp_path, [1, 2.5]) == [2.0, 5.0]


SLOW_START = {"memory_gib": 4.0, "request_seconds": 60.0, "start_seconds": 300.0}


def test_keras_is_asked(pool: Pool, tmp_path: Path) -> None:
    pytest.importorskip("tensorflow")
    import keras

    layer = keras.layers.Dense(1)
    network = keras.Sequential([keras.Input((2,)), layer])
    layer.set_weights([np.array([[2.0], [3.0]]), np.array([1.0])])
    network.save(tmp_path / "model.keras")
    (tmp_path / "scaler.joblib").write_bytes(b"what prepares the inputs, and no model")
    asked = pool(**SLOW_START)
    assert asked.predict("j", tmp_path, [[1, 1], [0, 2]]) == [[6.0], [7.0]]
    with pytest.raises(UserError, match="could not answer"):
        asked.predict("j", tmp_path, [[1, 2, 3]])
    assert asked.predict("j", tmp_path, [[0, 0]]) == [[1.0]]


def test_a_saved_model_is_asked_by_the_names_of_its_inputs(pool: Pool, tmp_path: Path) -> None:
    tensorflow = pytest.importorskip("tensorflow")

    class Scaled(tensorflow.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            self.factor = tensorflow.Variable(3.0)

        @tensorflow.function(
            input_signature=[
                tensorflow.TensorSpec([None], tensorflow.float32, "x"),
                tensorflow.TensorSpec([None], tensorflow.string, "word"),
            ]
        )
        def __call__(self, x: Any, word: Any) -> dict[str, Any]:
            return {"y": self.factor * x, "said": word + "!"}

    scaled = Scaled()
    tensorflow.saved_model.save(scaled, str(tmp_path / "model"), signatures=scaled.__call__)
    asked = pool(**SLOW_START)
    found = asked.predict("j", tmp_path, {"x": [1, 2], "word": ["a", "ü"]})
    assert found == {"y": [3.0, 6.0], "said": ["a!", "ü!"]}
    with pytest.raises(UserError, match="takes inputs by name: word, x"):
        asked.predict("j", tmp_path, [1, 2])


def test_an_exported_keras_model_is_asked_without_names(pool: Pool, tmp_path: Path) -> None:
    tensorflow = pytest.importorskip("tensorflow")
    import keras

    network = keras.Sequential([keras.Input((1,)), keras.layers.Rescaling(2.0)])
    network.export(tmp_path / "with")
    tensorflow.saved_model.save(tensorflow.Module(), str(tmp_path / "without"))
    asked = pool(**SLOW_START)
    assert asked.predict("with", tmp_path / "with", [[1], [4]]) == [[2.0], [8.0]]
    with pytest.raises(UserError, match="could not load: TypeError: the SavedModel has no signature"):
        asked.predict("without", tmp_path / "without", [1])


def test_models_of_tensorflow_go_before_what_may_lie_beside_them(tmp_path: Path) -> None:
    (tmp_path / "scaler.pkl").write_bytes(b"")
    (tmp_path / "torn.keras").write_bytes(b"PK")
    assert find_servable(tmp_path, "j").kind is Kind.SKLEARN
    (tmp_path / "export").mkdir()
    (tmp_path / "export" / "saved_model.pb").write_bytes(b"")
    assert find_servable(tmp_path, "j").kind is Kind.SAVED_MODEL
    with zipfile.ZipFile(tmp_path / "model.keras", "w") as archive:
        archive.writestr("config.json", "{}")
    assert find_servable(tmp_path, "j").kind is Kind.KERAS


def test_weights_alone_cannot_be_asked(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    torch.save({"w": torch.zeros(2)}, tmp_path / "model.pt")
    (tmp_path / "metrics.json").write_text("{}")
    with pytest.raises(NotFoundError) as caught:
        find_servable(tmp_path, "digits-1")
    assert "predict.py" in caught.value.hint


def test_inputs_that_a_model_refuses_are_the_askers_mistake(pool: Pool, tmp_path: Path) -> None:
    model(tmp_path, "def predict(x):\n    return x[0]")
    asked = pool()
    with pytest.raises(UserError, match="IndexError"):
        asked.predict("j", tmp_path, [])
    assert asked.predict("j", tmp_path, [7]) == 7


def test_a_model_that_crashes_is_loaded_anew(pool: Pool, tmp_path: Path) -> None:
    program = (
        "import os, sys\ndef predict(x):\n    if x == 'crash':\n        print('goodbye'); os.abort()\n    return x"
    )
    model(tmp_path, program)
    asked = pool()
    assert asked.predict("j", tmp_path, 1) == 1
    with pytest.raises(TaskFailedError, match=r"crashed \(SIGABRT\)") as caught:
        asked.predict("j", tmp_path, "crash")
    assert "goodbye" in caught.value.log_tail
    assert asked.predict("j", tmp_path, 2) == 2


def test_a_model_that_hangs_is_ended_with_all_that_it_started(pool: Pool, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    program = (
        "import os, subprocess, time\n"
        f"def predict(x):\n    child = subprocess.Popen(['sleep', '60'])\n"
        f"    open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')\n    time.sleep(60)"
    )
    model(tmp_path, program)
    began = time.monotonic()
    with pytest.raises(TaskFailedError, match="took more than 1 s to answer"):
        pool(request_seconds=1.0).predict("j", tmp_path, [])
    assert time.monotonic() - began < 30
    for pid in map(int, pids.read_text().split()):
        assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


# Starts a process in a session of its own, with nothing of ours in its environment, and forgets its parent.
RUNS_AWAY = """
import os, pathlib, subprocess, sys, time
def predict(x):
    code = "import os, subprocess, sys; p = subprocess.Popen(['sleep', '600'], start_new_session=True, env={}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL); print(p.pid, flush=True)"
    ran = subprocess.run([sys.executable, "-c", code], env={}, capture_output=True, start_new_session=True, check=True)
    pathlib.Path(x).write_bytes(ran.stdout)
    %s
"""


@pytest.mark.parametrize("then", ["time.sleep(60)", "os.abort()", "os._exit(0)", "return 1"])
def test_what_a_model_starts_in_a_session_of_its_own_ends_with_it(pool: Pool, tmp_path: Path, then: str) -> None:
    model(tmp_path / "model", RUNS_AWAY % then)
    asked = pool(request_seconds=20.0 if then != "time.sleep(60)" else 5.0)
    if then == "return 1":
        assert asked.predict("j", tmp_path / "model", str(tmp_path / "pid")) == 1
        asked.close()
    else:
        with pytest.raises(TaskFailedError):
            asked.predict("j", tmp_path / "model", str(tmp_path / "pid"))
    pid = int((tmp_path / "pid").read_text())
    assert ended(pid)


def test_what_a_model_started_ends_when_its_server_is_killed(tmp_path: Path) -> None:
    model(tmp_path / "model", RUNS_AWAY % "return 1")
    server = f"""
import time
from pathlib import Path
from mlcd.serving.pool import ModelPool
from mlcd.settings import PredictSettings
pool = ModelPool(PredictSettings())
print(pool.predict("j", Path({str(tmp_path / "model")!r}), {str(tmp_path / "pid")!r}), flush=True)
time.sleep(600)
"""
    process = subprocess.Popen([sys.executable, "-c", server], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"1\n"
    process.kill()
    process.wait()
    process.stdout.close()
    assert ended(int((tmp_path / "pid").read_text()))


def ended(pid: int) -> bool:
    """Whether it ends before long."""
    give_up_at = time.monotonic() + 30
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        if time.monotonic() > give_up_at:
            return False
        time.sleep(0.05)
    return True


@pytest.mark.parametrize("written", ["[1]", "nonsense", "null"])
def test_a_model_that_writes_in_the_place_of_answers_is_ended(pool: Pool, tmp_path: Path, written: str) -> None:
    program = f"""
import os
def predict(x):
    for handle in range(3, 30):
        try:
            os.write(handle, {written + chr(10)!r}.encode())
        except OSError:
            pass
    return 1
"""
    model(tmp_path, program)
    with pytest.raises(TaskFailedError, match="not valid JSON"):
        pool().predict("j", tmp_path, [])


def test_a_model_that_wants_too_much_memory_is_refused_it(pool: Pool, tmp_path: Path) -> None:
    model(tmp_path, "def predict(x):\n    return len(bytearray(x * 2**30))")
    asked = pool(memory_gib=0.5)
    with pytest.raises(UserError, match="MemoryError"):
        asked.predict("j", tmp_path, 4)
    assert asked.predict("j", tmp_path, 0) == 0


def test_a_model_that_cannot_be_loaded_says_why(pool: Pool, tmp_path: Path) -> None:
    model(tmp_path, "import no_such_package_here")
    with pytest.raises(UserError, match="no_such_package_here"):
        pool().predict("j", tmp_path, [])
    model(tmp_path / "other", "raise SystemExit('out')")
    with pytest.raises(UserError, match="SystemExit"):
        pool().predict("k", tmp_path / "other", [])


def test_an_answer_that_is_too_long_ends_the_model(pool: Pool, tmp_path: Path) -> None:
    model(tmp_path, "def predict(x):\n    return 'y' * x")
    asked = pool(answer_mib=0.1)
    assert asked.predict("j", tmp_path, 10) == "y" * 10
    with pytest.raises(TaskFailedError):
        asked.predict("j", tmp_path, 10**6)


def test_inputs_larger_than_a_pipe_arrive(pool: Pool, tmp_path: Path) -> None:
    model(tmp_path, "def predict(x):\n    return len(x)")
    assert pool().predict("j", tmp_path, "y" * 3_000_000) == 3_000_000


def test_a_model_that_nobody_asks_is_unloaded_and_comes_back(pool: Pool, tmp_path: Path) -> None:
    model(tmp_path, "def predict(x):\n    return x")
    asked = pool(idle_seconds=0.3)
    assert asked.predict("j", tmp_path, 1) == 1
    for _ in range(200):
        if not asked.loaded:
            break
        time.sleep(0.05)
    assert asked.loaded == []
    assert asked.predict("j", tmp_path, 2) == 2


def test_the_model_not_asked_for_longest_makes_room(pool: Pool, tmp_path: Path) -> None:
    asked = pool()
    for name in "abc":
        assert asked.predict(name, model(tmp_path / name, "def predict(x): return x"), name) == name
    assert asked.loaded == ["b", "c"]


def test_a_hanging_model_does_not_take_all_threads(pool: Pool, tmp_path: Path) -> None:
    model(tmp_path, "import time\ndef predict(x): time.sleep(60)")
    asked = pool(processes=1, request_seconds=2.0)
    seen: list[type] = []

    def ask() -> None:
        try:
            asked.predict("j", tmp_path, [])
        except (TaskFailedError, TooManyRequestsError) as error:
            seen.append(type(error))

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert seen.count(TooManyRequestsError) >= 4


def test_closing_ends_them_all(pool: Pool, tmp_path: Path) -> None:
    model(tmp_path, "import os\ndef predict(x): return os.getpid()")
    asked = pool()
    pid = asked.predict("j", tmp_path, [])
    asked.close()
    assert not psutil.pid_exists(pid)


def test_nothing_secret_is_passed_on() -> None:
    found = environment({"PATH": "/bin", "PGPASSWORD": "x", "MLCD_SECRET_KEY": "y", "AWS_SECRET": "z"}, 1, "/h")
    assert set(found.values()).isdisjoint({"x", "y", "z"})


def test_an_unknown_kind_of_number_is_refused(pool: Pool, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="Unknown dtype"):
        pool().predict("j", tmp_path, [], dtype="load")
