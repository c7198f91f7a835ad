"""The promises of mlcd.platforms.base.Platform as tests: subclass, name your platform, and run pytest.

class TestMyPlatform(PlatformContract):
    platform = MyPlatform
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace

from mlcd.core.job import Topology
from mlcd.core.machines import Deployment, InstanceType, Offer
from mlcd.core.task import Task, TaskKind
from mlcd.platforms.base import Node, Platform, Process

START_SECONDS = 60.0  # for a program that only looks at a variable


@dataclass(frozen=True)
class Started:
    """What a platform starts on all nodes of one deployment."""

    deployment: Deployment
    nodes: tuple[Node, ...]
    processes: tuple[tuple[Process, ...], ...]  # of each node

    @property
    def everything(self) -> list[Process]:
        """The processes of all nodes."""
        return [process for processes in self.processes for process in processes]

    @property
    def trainers(self) -> list[Process]:
        """Those that train; the others serve them."""
        return [process for process in self.everything if not process.serves]


class PlatformContract:
    """Every platform keeps these promises. Override the hooks, not the tests."""

    platform: type[Platform]  # as it is registered: called without arguments
    starts_here = True  # False: its command needs a launcher that is not installed where the tests run
    program_everywhere = (
        True  # False: the first node alone runs the program, the others serve it with what the platform starts
    )

    # ------------------------------------------------------------------------------------------------ hooks

    def task(self) -> Task:
        """A task to start; its command succeeds only where a program finds its task in the environment."""
        return Task(
            id="contract-1",
            job_id="contract",
            kind=TaskKind.TRAINING,
            platform="contract",
            run='test "$MLCD_TASK_ID" = contract-1',
            samples=800.0,
            samples_before=200.0,
            checkpoint_keep=3,
        )

    def deployments(self) -> Iterator[tuple[Deployment, tuple[Node, ...]]]:
        """One node and several, with and without GPUs and, where the platform has them, parameter servers."""
        servers = (0, 1) if Topology.PS in self.platform.topologies else (0,)
        for count in (1, 3):
            for gpus in (0, 2):
                for serving in servers if count > 1 else (0,):
                    yield _deployment(count, gpus, serving), _nodes(count, gpus)

    # ------------------------------------------------------------------------------------------------ helpers

    def started(self, task: Task | None = None) -> Iterator[Started]:
        """What the platform starts for the task on each deployment."""
        for deployment, nodes in self.deployments():
            platform = self.platform()
            processes = tuple(platform.processes(task or self.task(), deployment, node) for node in nodes)
            yield Started(deployment, nodes, processes)

    # --------------------------------------------------------------------------------------------- the promises

    def test_it_says_how_its_nodes_exchange_gradients(self) -> None:
        topologies = self.platform.topologies
        assert topologies
        assert all(isinstance(each, Topology) for each in topologies)
        assert len(set(topologies)) == len(topologies)

    def test_the_words_that_mark_its_programs_are_text(self) -> None:
        for name in ("packages", "launchers"):
            words = getattr(self.platform, name, ())
            assert isinstance(words, tuple)
            assert all(isinstance(word, str) and word.strip("*") for word in words)

    def test_every_node_starts_the_users_command(self) -> None:
        for started in self.started():
            assert all(started.processes)
            users = started.everything if self.program_everywhere else started.processes[0][:1]
            assert all(self.task().run in process.command for process in users)

    def test_what_is_not_the_users_command_serves_it(self) -> None:
        for started in self.started():
            assert all(self.task().run in process.command or process.serves for process in started.everything)

    def test_the_same_task_starts_the_same_processes(self) -> None:
        assert list(self.started()) == list(self.started())

    def test_the_first_process_of_the_first_node_trains(self) -> None:
        for started in self.started():
            assert not started.processes[0][0].serves, "it logs, counts and saves"

    def test_without_parameter_servers_every_node_trains(self) -> None:
        for started in self.started():
            if not started.deployment.servers and self.program_everywhere:
                assert all(any(not each.serves for each in processes) for processes in started.processes)

    def test_with_parameter_servers_the_last_nodes_only_serve(self) -> None:
        for started in self.started():
            for processes in started.processes[started.deployment.workers :]:
                assert all(process.serves for process in processes)

    def test_every_process_knows_its_task_and_its_work(self) -> None:
        expected = {
            "MLCD_TASK_ID": "contract-1",
            "MLCD_JOB_ID": "contract",
            "MLCD_WORK_SAMPLES": "1000",
            "MLCD_SAMPLES_BEFORE": "200",
            "MLCD_CHECKPOINT_KEEP": "3",
        }
        for started in self.started():
            for process in started.everything:
                assert {name: process.env.get(name) for name in expected} == expected

    def test_all_variables_are_text(self) -> None:
        for started in self.started():
            for process in started.everything:
                assert all(isinstance(each, str) for pair in process.env.items() for each in pair)

    def test_processes_that_train_have_ranks_of_their_own(self) -> None:
        for started in self.started():
            ranks = [int(process.env["RANK"]) for process in started.trainers]
            assert sorted(ranks) == list(range(len(ranks))), "each rank writes a progress file of its own"

    def test_the_world_without_its_servers_is_what_trains(self) -> None:
        for started in self.started():
            for process in started.trainers:
                servers = int(process.env.get("MLCD_SERVERS", "0"))
                assert max(1, int(process.env["WORLD_SIZE"]) - servers) == len(started.trainers)

    def test_a_chosen_batch_size_is_shared_by_all_ranks(self) -> None:
        for started in self.started():
            share = max(1, round(96 / len(started.trainers)))
            for process in started.trainers if not started.deployment.servers else ():
                found = (process.env["MLCD_BATCH_SIZE"], process.env["MLCD_LOCAL_BATCH_SIZE"])
                assert found == ("96", str(share))

    def test_several_nodes_can_find_the_first(self) -> None:
        for started in self.started():
            for process in started.everything if len(started.nodes) > 1 else ():
                assert any(started.nodes[0].addresses[0] in value for value in process.env.values())

    def test_a_process_sees_only_gpus_of_its_node(self) -> None:
        for started in self.started():
            for node, processes in zip(started.nodes, started.processes, strict=True):
                for process in processes:
                    seen = [each for each in process.env["CUDA_VISIBLE_DEVICES"].split(",") if each]
                    assert set(seen) <= set(node.gpus)

    def test_variables_of_the_job_are_left_alone(self) -> None:
        chosen = {"OMP_NUM_THREADS": "7", "GLOO_SOCKET_IFNAME": "eth7"}
        for started in self.started(replace(self.task(), envs=chosen)):
            for process in started.everything:
                assert {name: process.env.get(name, chosen[name]) for name in chosen} == chosen

    def test_what_it_starts_runs(self) -> None:
        (first, *_) = self.started()
        for process in first.trainers if self.starts_here else ():
            done = subprocess.run(
                ["bash", "-c", process.command],
                env={**os.environ, **process.env},
                capture_output=True,
                text=True,
                timeout=START_SECONDS,
                check=False,
            )
            assert done.returncode == 0, done.stdout + done.stderr


def _deployment(nodes: int, gpus: int, servers: int) -> Deployment:
    instance = InstanceType("contract", vcpus=4, gpus=gpus)
    return Deployment(Offer("contract", instance, 0.1, 8), nodes, batch_size=96, servers=servers)


def _nodes(count: int, gpus: int) -> tuple[Node, ...]:
    addresses = tuple(f"10.0.0.{number + 1}" for number in range(count))
    devices = tuple(str(device) for device in range(gpus))
    return tuple(Node(rank, addresses, 29500, cores=4, gpus=devices) for rank in range(count))
