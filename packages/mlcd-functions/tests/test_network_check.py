"""A program that connects functions with each other is refused before anything is paid for, and where functions would hide it."""

from __future__ import annotations

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


def test_platforms_of_several_processes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidJobError, match="MXNet"):
        refuse_program(job(tmp_path, "", "mxnet"), [Deployment(OFFER, 1)])
    with pytest.raises(InvalidJobError, match="Spark's driver, master and workers connect with each other"):
        refuse_program(job(tmp_path, "", "spark"), [Deployment(OFFER, 1)])
    with pytest.raises(InvalidJobError, match="Parameter servers"):
        refuse_program(job(tmp_path, "", "tensorflow", Topology.PS), [Deployment(OFFER, 3, servers=1)])
