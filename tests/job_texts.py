"""Texts of job files, and what reading them says."""

from __future__ import annotations

from typing import Any

import pytest

from mlcd.core.job import Job
from mlcd.core.jobfile import parse_job
from mlcd.errors import InvalidJobError

SKYPILOT = """\
name: my-task
workdir: .
num_nodes: 4
resources:
  infra: aws/us-east-1/us-east-1a
  accelerators: H100:8
  accelerator_args: {runtime_version: tpu-vm-base}
  cpus: 4+
  memory: 32+
  instance_type: p3.8xlarge
  use_spot: false
  disk_size: 256
  disk_tier: medium
  network_tier: best
  max_hourly_cost: 10.0
  image_id: ami-0868a20f5a3bf9702
  ports: [8081, 10022-10040]
  labels: {my-label: my-value}
  autostop: {idle_minutes: 10, wait_for: none}
  job_recovery: none
envs:
  MY_BUCKET: skypilot-temp-gcs-test
  LEARNING_RATE: 1e-4
  DEBUG: true
  SEED: 007
secrets:
  HF_TOKEN: abc
  WANDB_API_KEY: null
file_mounts:
  /remote/path: ./data
  /checkpoints: {source: s3://existing-bucket, mode: MOUNT}
  /datasets-s3: s3://my-awesome-dataset
setup: |
  pip install -r requirements.txt
run: |
  python train.py --seed ${SEED}
config: {kubernetes: {provision_timeout: 600}}
volumes: {/mnt/data: my-volume}
service: {readiness_probe: /, replicas: 2}
"""


def job(text: str, **options: Any) -> Job:
    return parse_job(text, **options).job


def complaint(text: str, **options: Any) -> str:
    with pytest.raises(InvalidJobError) as caught:
        parse_job(text, **options)
    return caught.value.message


def with_run(line: str) -> str:
    return f"run: python train.py\n{line}\n"
