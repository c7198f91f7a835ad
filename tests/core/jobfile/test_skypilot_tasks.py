"""Tasks in the shapes that SkyPilot's own examples have load here unchanged: facts of the format, with other words."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlcd.core.job import Job, NodeRange
from mlcd.core.jobfile import parse_job

# Two nodes that find each other by SKYPILOT_NODE_IPS, as examples/distributed-pytorch.
DISTRIBUTED = """\
name: letters-ddp

resources:
    cpus: 4+
    accelerators: L4

num_nodes: 2

setup: |
    git clone --depth 1 https://example.org/letters || true
    uv pip install -r letters/requirements.txt "numpy<2"

run: |
    cd letters && first=$(head -n1 <<< "$SKYPILOT_NODE_IPS")
    torchrun --nnodes $SKYPILOT_NUM_NODES --nproc_per_node $SKYPILOT_NUM_GPUS_PER_NODE --node_rank ${SKYPILOT_NODE_RANK} \\
      --master_addr $first --master_port 29400 read_letters.py
"""
# A bucket whose name is a variable, and a token that comes with the command, as llm/llama-3_1-finetuning.
FINETUNING = """\
# HF_TOKEN=xxx sky launch task.yaml --env HF_TOKEN

envs:
  MODEL_SIZE: 8B
  HF_TOKEN:
  DATASET: "somebody/recipes"
  CHECKPOINT_BUCKET_NAME: my-checkpoints

resources:
  accelerators: A100:8
  disk_tier: best
  use_spot: true

file_mounts:
  /configs: ./configs
  /output:
    name: $CHECKPOINT_BUCKET_NAME
    mode: MOUNT

setup: |
  huggingface-cli download somebody/model-${MODEL_SIZE} --token $HF_TOKEN

run: |
  python adapt.py --processes $SKYPILOT_NUM_GPUS_PER_NODE --config /configs/${MODEL_SIZE}.yaml --data $DATASET --out /output
"""
# Spot with a recovery strategy, and a bucket whose name is still to be filled in, as examples/spot.
SPOT = """\
name: questions

resources:
    accelerators: V100:1
    cloud: aws
    use_spot: true
    spot_recovery: FAILOVER

num_nodes: 1

file_mounts:
    /checkpoint:
        name: # fill in
        mode: MOUNT

run: |
    python answer.py --output_dir /checkpoint/questions/ --run_name $SKYPILOT_TASK_ID
"""
# A container, and a value of YAML 1.1, as llm/axolotl.
CONTAINER = """\
name: tuning

resources:
  accelerators: A100:1
  cloud: gcp # optional
  use_spot: True
  image_id: docker:example/tuner:main-py3.10

workdir: .

run: |
  accelerate launch -m tuner.train config.yaml

envs:
  BUCKET: # TODO
"""
# Any of several accelerators on Kubernetes or a cloud, with managed recovery, as the newer examples.
ALTERNATIVES = """\
name: anywhere

resources:
  gpus: {L4: 1, A10G: 1}
  memory: 32+
  ports: 8080
  autostop: 10m
  labels: {team: vision}
  job_recovery: {strategy: FAILOVER, max_restarts_on_errors: 3}
  any_of:
    - infra: k8s
    - infra: aws/us-east-1
      use_spot: true

secrets:
  WANDB_API_KEY: null

config:
  kubernetes: {provision_timeout: 600}

setup: uv pip install -r requirements.txt

run: python train.py
"""
GIVEN = {"HF_TOKEN": "t", "BUCKET": "b", "WANDB_API_KEY": "w"}


def load(text: str, folder: Path) -> Job:
    (folder / "configs").mkdir()
    return parse_job(text, base=folder, environ=GIVEN).job


def test_nodes_that_find_each_other_by_skypilots_variables(tmp_path: Path) -> None:
    job = load(DISTRIBUTED, tmp_path)
    (machine,) = job.resources
    assert (job.nodes, machine.accelerators, machine.min_vcpus) == (NodeRange(2, 2), (("L4", 1.0),), 4.0)
    assert "--node_rank ${SKYPILOT_NODE_RANK}" in job.run


def test_variables_that_come_with_the_command(tmp_path: Path) -> None:
    job = load(FINETUNING, tmp_path)
    assert job.envs["HF_TOKEN"] == "t"
    assert job.file_mounts == {"/configs": str(tmp_path / "configs")}
    assert [machine.use_spot for machine in job.resources] == [True]


def test_spot_with_a_recovery_strategy(tmp_path: Path) -> None:
    job = load(SPOT, tmp_path)
    (machine,) = job.resources
    assert (machine.clouds, machine.accelerators, machine.use_spot) == (("ec2",), (("V100", 1.0),), True)


def test_a_container_is_noted_and_not_used(tmp_path: Path) -> None:
    loaded = parse_job(CONTAINER, base=tmp_path, environ=GIVEN)
    assert loaded.job.envs == {"BUCKET": "b"}
    assert "resources.image_id is not used by mlcd." in loaded.notices


def test_any_of_several_places_and_accelerators(tmp_path: Path) -> None:
    job = load(ALTERNATIVES, tmp_path)
    assert [machine.clouds for machine in job.resources] == [("kubernetes",), ("ec2",)]
    assert [machine.use_spot for machine in job.resources] == [None, True]
    assert {machine.accelerators for machine in job.resources} == {(("L4", 1.0), ("A10G", 1.0))}
    assert job.secret_names == ("WANDB_API_KEY",)


@pytest.mark.parametrize("text", [DISTRIBUTED, FINETUNING, SPOT, CONTAINER, ALTERNATIVES])
def test_what_is_loaded_has_a_command(tmp_path: Path, text: str) -> None:
    assert load(text, tmp_path).run.strip()
