"""Programs that train by other means than torch: programs whose ranks do the same work are distinguished from those that share it."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlcd.worker import complete_checkpoints
from worker.programs import finish, start
from worker.sessions import lines

pytestmark = pytest.mark.slow

LOOPS = """
import mlcd
for batch in mlcd.steps([[0] * 10] * 20):
    pass
"""
REPORTS = """
import mlcd
for step in range(1, 21):
    mlcd.report(samples=10 * step)
"""
SAVES = """
import mlcd
for batch in mlcd.steps([[0] * 10] * 20):
    pass
with mlcd.checkpoint() as folder:
    (folder / "state").write_text("200")
"""

# What `import jax` leaves where it is installed.
JAX = """
import sys, types
jax = sys.modules["jax._src.distributed"] = types.ModuleType("distributed")
jax.global_state = types.SimpleNamespace(client={client})
"""


def says_alone(folder: Path, rank: int = 0) -> bool:
    """What the newest line of a rank says."""
    return bool(lines(folder / "progress", rank)[-1].get("alone", False))


@pytest.mark.parametrize("program", [LOOPS, REPORTS], ids=["mlcd.steps", "mlcd.report"])
def test_a_program_that_knows_nothing_of_other_ranks_trains_alone(program: str, tmp_path: Path) -> None:
    finish(start(program, tmp_path, RANK=1, WORLD_SIZE=2))
    assert says_alone(tmp_path, rank=1)


def test_a_program_that_only_reports_metrics_is_not_said_to_train(tmp_path: Path) -> None:
    finish(start("import mlcd\nmlcd.report(loss=0.5)", tmp_path, RANK=0, WORLD_SIZE=2))
    assert not says_alone(tmp_path)


@pytest.mark.parametrize(
    "shares",
    [
        "import os\nrank = os.environ['RANK']",
        "import os\nfriends = os.environ['SKYPILOT_NODE_IPS'].split()",
        "import mlcd\nsampler = mlcd.ElasticSampler(160)",
        "import sys, types\nsys.modules['mpi4py.MPI'] = types.ModuleType('MPI')",
        JAX.format(client="object()"),
    ],
    ids=["RANK", "SKYPILOT_NODE_IPS", "ElasticSampler", "MPI", "jax.distributed"],
)
def test_a_program_that_knows_its_place_is_not_taken_for_alone(shares: str, tmp_path: Path) -> None:
    finish(start(shares + LOOPS, tmp_path, RANK=0, WORLD_SIZE=2, SKYPILOT_NODE_IPS="a\nb"))
    assert not says_alone(tmp_path)


@pytest.mark.parametrize("program", [LOOPS, REPORTS], ids=["mlcd.steps", "mlcd.report"])
def test_a_group_that_was_ended_before_the_program_ends_has_shared(program: str, tmp_path: Path) -> None:
    ends = "\njax.global_state.client = None\n"
    finish(start(JAX.format(client="object()") + program + ends, tmp_path, RANK=0, WORLD_SIZE=2))
    assert not says_alone(tmp_path)


def test_jax_without_a_group_shares_nothing(tmp_path: Path) -> None:
    finish(start(JAX.format(client=None) + LOOPS, tmp_path, RANK=0, WORLD_SIZE=2))
    assert says_alone(tmp_path)


def test_a_library_may_share_for_the_program_as_tensorflow_does_by_tf_config(tmp_path: Path) -> None:
    library = tmp_path / "site-packages"
    library.mkdir()
    (library / "strategy.py").write_text("import os\nconfig = os.environ.get('TF_CONFIG')\n")
    uses = f"import sys\nsys.path.insert(0, {str(library)!r})\nimport strategy"
    finish(start(uses + LOOPS, tmp_path, RANK=0, WORLD_SIZE=2, TF_CONFIG="{}"))
    assert not says_alone(tmp_path)


def test_a_program_whose_command_hands_its_rank_on_is_not_taken_for_alone(tmp_path: Path) -> None:
    finish(start(LOOPS, tmp_path, RANK=0, WORLD_SIZE=2, MLCD_PLACE_GIVEN=1))
    assert not says_alone(tmp_path)


@pytest.mark.parametrize(("knows", "samples"), [("", 1200), ("import os\nrank = os.environ['RANK']", 1400)])
def test_a_checkpoint_of_ranks_that_do_the_same_holds_what_one_has_done(
    knows: str, samples: float, tmp_path: Path
) -> None:
    finish(start(knows + SAVES, tmp_path, RANK=0, WORLD_SIZE=2, MLCD_SAMPLES_BEFORE=1000))
    assert [one.facts.samples for one in complete_checkpoints(tmp_path / "checkpoints")] == [samples]
