"""A program that connects functions with each other is refused before anything is paid for, and where functions would hide it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mlcd.core.job import Job, Topology
from mlcd.core.machines import Deployment
from mlcd.core.task import Task, TaskKind
from mlcd.errors import InvalidJobError, UserError
from mlcd_functions.network_check import refuse_connecting_program, refuse_program
from mlcd_functions.offers import Terms, make_offers
from mlcd_functions.prices import Prices
from mlcd_functions.settings import FunctionsSettings

OFFER = next(make_offers(Terms("", Prices(), 10)))
TOGETHER = FunctionsSettings(isolate=False)


def task(workdir: Path, program: str) -> Task:
    (workdir / "train.py").write_text(program)
    return Task("t", "j", TaskKind.PROBE, "jax", "python train.py", workdir=str(workdir))


def job(workdir: Path, program: str, platform: str = "command", topology: Topology = Topology.ALLREDUCE) -> Job:
    (workdir / "train.py").write_text(program)
    return Job(name="job", run="python train.py", workdir=str(workdir), platform=platform, topology=topology)


def test_a_program_that_connects_functions_is_refused_with_the_reason(tmp_path: Path) -> None:
    connecting = task(tmp_path, "import jax\njax.distributed.initialize()\n")
    with pytest.raises(UserError, match=r"train\.py calls jax\.distributed\.initialize") as refused:
        refuse_connecting_program(connecting, Deployment(OFFER, 2), TOGETHER)
    assert "functions.isolate is off" in refused.value.hint


def test_one_function_and_programs_that_use_a_store_are_not_refused(tmp_path: Path) -> None:
    connecting = task(tmp_path, "import jax\njax.distributed.initialize()\n")
    refuse_connecting_program(connecting, Deployment(OFFER, 1), TOGETHER)
    refuse_connecting_program(task(tmp_path, "from mlcd.sync import join\n"), Deployment(OFFER, 2), TOGETHER)


@pytest.mark.parametrize(
    ("platform", "program", "instead"),
    [
        ("jax", "import jax\njax.distributed.initialize()", "mlcd.sync.jax.average"),
        (
            "tensorflow",
            "from tensorflow import distribute as d\nd.MultiWorkerMirroredStrategy()",
            "mlcd.sync.keras.share",
        ),
        ("tensorflow", "import tensorflow as tf\ntf.distribute.ParameterServerStrategy(x)", "mlcd.sync.keras.share"),
        ("command", "import mxnet as mx\nmx.kv.create('dist_sync')", "with mlcd.sync"),
    ],
)
def test_several_functions_are_refused_when_the_job_is_checked(
    tmp_path: Path, platform: str, program: str, instead: str
) -> None:
    connecting = job(tmp_path, program, platform)
    with pytest.raises(InvalidJobError, match=r"train\.py calls .* cannot reach each other") as refused:
        refuse_program(connecting, [Deployment(OFFER, 1), Deployment(OFFER, 2)])
    assert instead in refused.value.hint
    refuse_program(connecting, [Deployment(OFFER, 1)])
    refuse_program(connecting, [])


def test_what_a_program_says_of_itself_and_what_it_does_by_a_store_is_not_refused(tmp_path: Path) -> None:
    several = [Deployment(OFFER, 2)]
    refuse_program(job(tmp_path, '"""Like MultiWorkerMirroredStrategy."""\n# jax.distributed.initialize()\n'), several)
    both = "from mlcd.sync import join\nimport jax\nif VM:\n    jax.distributed.initialize()\n"
    refuse_program(job(tmp_path, both, "jax"), several)


SEVERAL = [Deployment(OFFER, 2)]
CONNECTS = "import jax\njax.distributed.initialize()\n"


@pytest.mark.parametrize(
    "program",
    [
        "print('no jax.distributed.initialize() here')\n",
        "HELP = 'MultiWorkerMirroredStrategy or not'\n",
        "from tensorflow.distribute import MultiWorkerMirroredStrategy\n",
        "from argparse import ArgumentParser\nArgumentParser().add_argument('--kvstore', help='or dist_sync')\n",
        "kind = 'dist_sync'\nprint(kind)\n",
        "import mxnet as mx\nmx.nd.load('dist_params')\nmx.init.Xavier('dist_sync')\n",
        "state.initialize()\nmodel.kv.create('device')\n",
    ],
)
def test_a_name_that_is_only_mentioned_is_no_call(tmp_path: Path, program: str) -> None:
    refuse_program(job(tmp_path, program), SEVERAL)


@pytest.mark.parametrize(
    "program",
    [
        "import jax.distributed\njax.distributed.initialize()\n",
        "from jax import distributed\ndistributed.initialize()\n",
        "import jax.distributed as d\nd.initialize()\n",
        "from jax.distributed import initialize as connect\nconnect()\n",
        "import jax\nbegin = jax.distributed.initialize\nbegin()\n",
        "import tensorflow as tf\nwith tf.distribute.experimental.MultiWorkerMirroredStrategy().scope():\n    pass\n",
        "import tensorflow as tf\nkind = tf.distribute.MultiWorkerMirroredStrategy\nkind()\n",
        "from mxnet import gluon\ntrainer = gluon.Trainer(p, 'sgd', kvstore='dist_device_sync')\n",
        "import mxnet as mx\nkind = 'dist_sync'\nstore = mx.kvstore.create(kind)\n",
        "import torch.distributed.rpc as rpc\nrpc.init_rpc('worker')\n",
    ],
)
def test_a_call_is_found_by_whatever_name(tmp_path: Path, program: str) -> None:
    with pytest.raises(InvalidJobError, match="cannot reach each other"):
        refuse_program(job(tmp_path, program), SEVERAL)


def test_only_files_that_the_program_imports_are_looked_at(tmp_path: Path) -> None:
    for name in ("elsewhere.py", "tests/test_train.py", ".venv/lib/jax/start.py", "lib/__init__.py", "lib/cluster.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("" if name.endswith("__init__.py") else CONNECTS)
    refuse_program(job(tmp_path, "import numpy\nfrom lib import data\n"), SEVERAL)
    for imports in (
        "import elsewhere",
        "from lib import cluster",
        "from lib.cluster import x",
        "import lib.cluster as c",
    ):
        with pytest.raises(InvalidJobError, match=r"elsewhere\.py|cluster\.py"):
            refuse_program(job(tmp_path, imports), SEVERAL)


def test_a_helper_that_is_not_imported_excuses_nothing(tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text("from mlcd.sync import join\n")
    with pytest.raises(InvalidJobError):
        refuse_program(job(tmp_path, f"{CONNECTS}# unlike mlcd.sync\nprint('mlcd.sync')\n"), SEVERAL)
    refuse_program(job(tmp_path, f"import other\n{CONNECTS}"), SEVERAL)
    refuse_program(job(tmp_path, f"import mlcd\n{CONNECTS}mlcd.sync.join()\n"), SEVERAL)


@pytest.mark.parametrize("run", ["bash start.sh", "cd src && python go.py", "python train.py"])
def test_where_it_is_not_known_what_runs_all_files_are_looked_at(tmp_path: Path, run: str) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "go.py").write_text(CONNECTS)
    loads = job(tmp_path, "import importlib\nimportlib.import_module(name)\n")
    with pytest.raises(InvalidJobError, match=r"go\.py calls"):
        refuse_program(replace(loads, run=run), SEVERAL)


def test_modules_and_relative_imports_are_followed(tmp_path: Path) -> None:
    (tmp_path / "trainer").mkdir()
    for name, text in {"__init__": "", "__main__": "from .parts import go\n", "parts": CONNECTS}.items():
        (tmp_path / "trainer" / f"{name}.py").write_text(text)
    module = replace(job(tmp_path, ""), run="python -m trainer")
    with pytest.raises(InvalidJobError, match=r"trainer/parts\.py calls jax\.distributed\.initialize"):
        refuse_program(module, SEVERAL)


def test_platforms_of_several_processes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidJobError, match="MXNet"):
        refuse_program(job(tmp_path, "", "mxnet"), [Deployment(OFFER, 1)])
    with pytest.raises(InvalidJobError, match="Spark's driver, master and workers connect with each other"):
        refuse_program(job(tmp_path, "", "spark"), [Deployment(OFFER, 1)])
    with pytest.raises(InvalidJobError, match="Parameter servers"):
        refuse_program(job(tmp_path, "", "tensorflow", Topology.PS), [Deployment(OFFER, 3, servers=1)])
