"""A program that connects functions with each other is refused where functions of this computer would hide that it cannot work."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlcd.core.machines import Deployment
from mlcd.core.task import Task, TaskKind
from mlcd.errors import UserError
from mlcd_functions.network_check import refuse_connecting_program
from mlcd_functions.offers import Terms, make_offers
from mlcd_functions.prices import Prices
from mlcd_functions.settings import FunctionsSettings

OFFER = next(make_offers(Terms("", Prices(), 10)))
TOGETHER = FunctionsSettings(isolate=False)


def task(workdir: Path, program: str) -> Task:
    (workdir / "train.py").write_text(program)
    return Task("t", "j", TaskKind.PROBE, "jax", "python train.py", workdir=str(workdir))


def test_a_program_that_connects_functions_is_refused_with_the_reason(tmp_path: Path) -> None:
    connecting = task(tmp_path, "import jax\njax.distributed.initialize()\n")
    with pytest.raises(UserError, match=r"train\.py calls jax\.distributed\.initialize") as refused:
        refuse_connecting_program(connecting, Deployment(OFFER, 2), TOGETHER)
    assert "functions.isolate is off" in refused.value.hint


def test_one_function_and_programs_that_use_a_store_are_not_refused(tmp_path: Path) -> None:
    connecting = task(tmp_path, "import jax\njax.distributed.initialize()\n")
    refuse_connecting_program(connecting, Deployment(OFFER, 1), TOGETHER)
    refuse_connecting_program(task(tmp_path, "from mlcd.sync import join\n"), Deployment(OFFER, 2), TOGETHER)
