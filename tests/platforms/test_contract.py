"""All built-in platforms keep the contract, and it notices platforms that do not."""

from dataclasses import replace

import pytest

from mlcd import registry
from mlcd.core.machines import Deployment
from mlcd.core.task import Task
from mlcd.platforms.base import Node, Process
from mlcd.platforms.command import CommandPlatform
from mlcd.platforms.jax import JaxPlatform
from mlcd.platforms.mxnet import MXNetPlatform
from mlcd.platforms.pytorch import PyTorchPlatform
from mlcd.platforms.spark import SparkPlatform
from mlcd.platforms.tensorflow import TensorFlowPlatform
from mlcd.testing import PlatformContract


class TestCommand(PlatformContract):
    platform = CommandPlatform


class TestJax(PlatformContract):
    platform = JaxPlatform


class TestMXNet(PlatformContract):
    platform = MXNetPlatform


class TestPyTorch(PlatformContract):
    platform = PyTorchPlatform


class TestSpark(PlatformContract):
    platform = SparkPlatform
    program_everywhere = False
    starts_here = False  # it waits for a master, which needs Java


class TestTensorFlow(PlatformContract):
    platform = TensorFlowPlatform


def test_every_platform_of_ours_is_among_them() -> None:
    tried = {kind.platform for kind in PlatformContract.__subclasses__() if hasattr(kind, "platform")}
    found = [registry.load("platforms", name) for name in registry.names("platforms")]
    assert [kind for kind in found if kind.__module__.startswith("mlcd.") and kind not in tried] == []


class EveryoneIsFirst(CommandPlatform):
    """Gives all nodes the same rank."""

    def processes(self, task: Task, deployment: Deployment, node: Node) -> tuple[Process, ...]:
        (process,) = super().processes(task, deployment, node)
        return (replace(process, env={**process.env, "RANK": "0"}),)


class Forgetful(CommandPlatform):
    """Starts the command with no environment at all."""

    def processes(self, task: Task, deployment: Deployment, node: Node) -> tuple[Process, ...]:
        return (Process(task.run),)


class Idle(CommandPlatform):
    """Starts something else than the program on all nodes but the first, as work that is waited for."""

    def processes(self, task: Task, deployment: Deployment, node: Node) -> tuple[Process, ...]:
        (process,) = super().processes(task, deployment, node)
        return (process if node.rank == 0 else replace(process, command="sleep infinity"),)


def contract_of(tested: type[CommandPlatform]) -> PlatformContract:
    contract = PlatformContract()
    contract.platform = tested
    return contract


def test_ranks_that_collide_are_noticed() -> None:
    with pytest.raises(AssertionError, match="progress file of its own"):
        contract_of(EveryoneIsFirst).test_processes_that_train_have_ranks_of_their_own()


def test_a_program_that_does_not_know_its_task_is_noticed() -> None:
    contract = contract_of(Forgetful)
    with pytest.raises(AssertionError):
        contract.test_every_process_knows_its_task_and_its_work()
    with pytest.raises(AssertionError):
        contract.test_what_it_starts_runs()


def test_work_that_is_not_the_program_is_noticed() -> None:
    with pytest.raises(AssertionError):
        contract_of(Idle).test_what_is_not_the_users_command_serves_it()
    with pytest.raises(AssertionError):
        contract_of(Idle).test_every_node_starts_the_users_command()
