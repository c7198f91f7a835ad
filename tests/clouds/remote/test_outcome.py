"""What the agents' words add up to, and who is to blame."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mlcd.clouds.remote.outcome import NodeReports, decide_outcome, is_leaving
from mlcd.core.task import TaskState

FAILED = {"phase": "ended", "why": "exit", "codes": [1], "ended_at": 100.0}
DONE = {"phase": "ended", "why": "exit", "codes": [0], "ended_at": 100.0}
RUNNING = {"phase": "running", "why": "", "codes": [None]}


@pytest.fixture
def logs(tmp_path: Path) -> list[Path]:
    """Two logs in which nothing is said."""
    return [tmp_path / "0.log", tmp_path / "1.log"]


def judge(logs: list[Path], agents: Sequence[dict[str, Any]], silent: float, failed_for: float) -> Any:
    """Node 0 said so long ago that it failed, and says so still; node 1 has said nothing new for so long."""
    ended = [failed_for, failed_for if agents[1]["phase"] == "ended" else 0.0]
    return decide_outcome(NodeReports(agents, [0.5, silent], ended, logs))


@pytest.mark.parametrize("seconds", [0.0, 5.0, 19.0, 21.0, 300.0])
def test_a_program_that_failed_beside_a_silent_node_is_not_blamed(logs: list[Path], seconds: float) -> None:
    """Its loss is told by whoever asks the provider, however long the provider takes to call it lost."""
    assert judge(logs, (FAILED, RUNNING), silent=seconds + 1.0, failed_for=seconds) is None


def test_a_node_heard_of_just_before_the_failure_may_be_the_one_that_died(logs: list[Path]) -> None:
    assert judge(logs, (FAILED, RUNNING), silent=0.9, failed_for=0.2) is None


def test_a_program_that_failed_while_all_others_live_is_blamed(logs: list[Path]) -> None:
    ending = judge(logs, (FAILED, RUNNING), silent=0.5, failed_for=3.5)
    assert (ending.state, ending.node, ending.exit_code) == (TaskState.FAILED, 0, 1)


def test_a_node_whose_program_is_over_is_not_waited_for(logs: list[Path]) -> None:
    ending = judge(logs, (FAILED, DONE), silent=60.0, failed_for=1.0)
    assert (ending.state, ending.node) == (TaskState.FAILED, 0)


@pytest.mark.parametrize(
    ("agent", "leaving"),
    [
        ({"why": "stopped", "notice": ""}, False),
        ({"why": "exit", "notice": ""}, False),
        ({"why": "stopped", "notice": "terminate"}, True),
        ({"why": "lease", "notice": ""}, True),
        ({"why": "taken", "notice": ""}, True),
        ({"why": "gone", "notice": ""}, True),
    ],
)
def test_a_machine_that_ends_with_its_program_is_for_no_other_task(agent: dict[str, Any], leaving: bool) -> None:
    assert is_leaving(agent) is leaving
