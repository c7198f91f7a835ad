"""The checked keys of a job file to a Job."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

from mlcd.core.goal import default_aim
from mlcd.core.job import (
    CheckpointSettings,
    Direction,
    Job,
    LearningRate,
    ProbeSettings,
    ProgressSettings,
    Resources,
    SearchSettings,
    Target,
    Work,
)
from mlcd.core.jobfile.context import Surroundings
from mlcd.core.jobfile.keys import JobKeys, MachineKeys, ResourcesKeys, WorkKeys
from mlcd.core.jobfile.values import likely_direction

_LARGEST_SCRIPT = 1_000_000  # bytes
_TORCH_COMMAND = re.compile(r"\b(torchrun|torch)\b")
# What a script imports tells its platform; the first that fits, since torch programs may import the others' tools.
_IMPORTS = {
    "pytorch": r"torch\w*|lightning|pytorch_lightning|accelerate|transformers",
    "tensorflow": r"tensorflow|keras",
    "jax": r"jax|flax|optax",
    "mxnet": r"mxnet",
}
_SCRIPT = re.compile(r"(?:^|[\s'\"=])([\w./-]+\.py)\b")
_MODULE = re.compile(r"\s-m\s+([\w.]+)")

_OUR_NAMES = {"aws": "ec2"}  # SkyPilot's name of a cloud → ours


def build_job(keys: JobKeys, around: Surroundings) -> tuple[Job, dict[str, str]]:
    """The job, and the values of its secrets."""
    secrets = keys.secrets or dict(around.secrets)
    job = Job(
        name=keys.name,
        run=keys.run,
        setup=keys.setup,
        workdir=keys.workdir,
        envs={name: value for name, value in (keys.envs or dict(around.envs)).items() if name not in secrets},
        secret_names=tuple(secrets),
        file_mounts=keys.file_mounts,
        outputs=keys.outputs,
        platform=keys.platform or likely_platform(keys.run, keys.workdir),
        topology=keys.topology,
        resources=_resources(keys.resources, around.notices),
        nodes=keys.num_nodes,
        batch_sizes=keys.batch_size,
        learning_rate=LearningRate(**dict(keys.learning_rate)),
        work=_work(keys.work, around.notices),
        aim=keys.goal or default_aim(keys.deadline is not None, keys.budget is not None),
        deadline_seconds=_seconds_to(keys.deadline, around.now),
        deadline_at=keys.deadline.timestamp() if isinstance(keys.deadline, datetime) else None,
        budget_usd=keys.budget,
        search=SearchSettings(**dict(keys.search)),
        probe=ProbeSettings(**dict(keys.probe)),
        checkpoint=CheckpointSettings(**dict(keys.checkpoint)),
        progress=ProgressSettings(**dict(keys.progress)),
        on_nan=keys.on_nan,
        elastic=keys.elastic,
        cloud=keys.cloud,
        on_event=keys.on_event,
    )
    return job, secrets


def _seconds_to(deadline: datetime | float | None, now: float) -> float | None:
    return deadline.timestamp() - now if isinstance(deadline, datetime) else deadline


def _work(keys: WorkKeys | None, notices: list[str]) -> Work | None:
    if keys is None:
        return None
    samples = keys.samples if keys.samples is not None else (keys.epochs or 0.0) * (keys.dataset_size or 0)
    return Work(samples, keys.dataset_size, _target(keys, notices))


def _target(keys: WorkKeys, notices: list[str]) -> Target | None:
    if keys.until is None:
        return None
    metric = keys.until.metric
    direction = keys.until.direction or likely_direction(metric)
    if direction is None:
        notices.append(
            f"work.until: '{metric}' is taken to be better the higher it is; else say 'direction: down'."
        )
    return Target(metric, keys.until.value, direction or Direction.UP)


def _resources(keys: ResourcesKeys, notices: list[str]) -> tuple[Resources, ...]:
    """Each alternative, completed by what is said for all of them."""
    if keys.ordered:
        notices.append("The order in resources.ordered is not used by mlcd: the search decides.")
    if any(each.infra.count("/") > 1 for each in (keys, *keys.any_of, *keys.ordered)):
        notices.append("The zone in resources.infra is not used by mlcd.")
    common = {key: value for key, value in _said(keys).items() if key not in ("any_of", "ordered")}
    alternatives = keys.any_of or keys.ordered or (MachineKeys(),)
    return tuple(
        _one_resources(MachineKeys.model_construct(**{**common, **_said(each)})) for each in alternatives
    )


def _said(keys: MachineKeys) -> dict[str, Any]:
    return {key: getattr(keys, key) for key in keys.model_fields_set}


def _one_resources(keys: MachineKeys) -> Resources:
    cloud, region, *_ = [*keys.infra.split("/"), "", ""] if keys.infra else [keys.cloud, keys.region]
    return Resources(
        clouds=_named_ones(_OUR_NAMES.get(cloud.lower(), cloud.lower())),
        regions=_named_ones(region),
        instance_types=keys.instance_type,
        accelerators=keys.accelerators,
        min_vcpus=keys.cpus[0],
        exact_vcpus=keys.cpus[1],
        min_memory_gib=keys.memory[0],
        exact_memory=keys.memory[1],
        use_spot=keys.use_spot,
        max_usd_per_hour=keys.max_hourly_cost,
    )


def _named_ones(word: str) -> tuple[str, ...]:
    return () if word in ("", "*") else (word,)


def likely_platform(run: str, workdir: str) -> str:
    """The platform that the command or the script that it names uses, else 'command'."""
    if _TORCH_COMMAND.search(run):
        return "pytorch"
    scripts = list(_scripts(run, workdir))
    for platform, packages in _IMPORTS.items():
        imports = re.compile(rf"^\s*(?:import|from)\s+(?:{packages})\b", re.MULTILINE)
        if any(imports.search(text) for text in scripts):
            return platform
    return "command"


def _scripts(run: str, workdir: str) -> Iterable[str]:
    modules = [module.replace(".", "/") + ".py" for module in _MODULE.findall(run)]
    for name in [*_SCRIPT.findall(run), *modules]:
        file = Path(workdir or "/nowhere") / name
        try:
            if file.is_file() and file.stat().st_size < _LARGEST_SCRIPT:
                yield file.read_text(errors="ignore")
        except OSError:
            continue  # a guess that cannot be read is no guess
