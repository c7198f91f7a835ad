"""All built-in platforms keep the contract, and it notices platforms that do not."""

from dataclasses import replace

import pytest

from mlcd.core.machines import Deployment
from mlcd.core.task import Task
from mlcd.platforms.base import Node, Process
from mlcd.platforms.command import CommandPlatform
from mlcd.platforms.jax import JaxPlatform
from mlcd.platforms.mxnet import MXNetPlatform
from mlcd.platforms.pytorch import PyTorchPlatform
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


class TestTensorFlow(PlatformContract):
    platform = TensorFlowPlatform


class EveryoneIsFirst(CommandPlatform):
    """Gives all nodes the same rank."""

    def processes(self, task: Task, deployment: Deployment, node: Node) -> tuple[Process, ...]:
        (process,) = super().processes(task, deployment, node)
        return (replace(process, env={**process.env, "RANK": "0"}),)


class Forgetful(CommandPlatform):
    """Starts the command with no environment at all."""

    def processes(self, task: Task, deployment: Deployment, node: Node) -> tuple[Process, ...]:
        return (Process(task.run),)


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
