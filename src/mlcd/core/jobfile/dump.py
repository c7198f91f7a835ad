"""A job to the keys of a job file: what goes over the wire is checked there like any file."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from mlcd.core.job import Job, Resources, Work
from mlcd.core.notices import Recipient


def job_to_dict(job: Job) -> dict[str, Any]:
    """The mapping of which `job_from_dict` makes this job again; secrets are named, without their values."""
    keys = {
        "name": job.name,
        "run": job.run,
        "setup": job.setup,
        "workdir": job.workdir,
        "envs": dict(job.envs),
        "secrets": list(job.secret_names),
        "file_mounts": dict(job.file_mounts),
        "outputs": list(job.outputs),
        "platform": job.platform,
        "topology": job.topology.value,
        "resources": {"any_of": [_resources(each) for each in job.resources]},
        "num_nodes": f"{job.nodes.fewest}..{job.nodes.most}",
        "batch_size": list(job.batch_sizes.choices),
        "work": _work(job.work) if job.work else None,
        "goal": job.aim.value,
        "deadline": _deadline(job),
        "budget": job.budget_usd,
        "search": _without_nothing(asdict(job.search)),
        "probe": asdict(job.probe),
        "checkpoint": _filled(asdict(job.checkpoint)),
        "progress": _filled(asdict(job.progress)),
        "learning_rate": _without_nothing(asdict(job.learning_rate)),
        "on_nan": job.on_nan.value,
        "elastic": job.elastic,
        "cloud": job.cloud,
        "on_event": [_recipient(each) for each in job.on_event],
    }
    return {key: value for key, value in keys.items() if value not in ("", None, [], {}, ())}


def _resources(resources: Resources) -> dict[str, Any]:
    keys = {
        "cloud": next(iter(resources.clouds), ""),
        "region": next(iter(resources.regions), ""),
        "instance_type": list(resources.instance_types),
        "accelerators": [f"{name}:{count:g}" for name, count in resources.accelerators],
        "cpus": _amount(resources.min_vcpus, resources.exact_vcpus),
        "memory": _amount(resources.min_memory_gib, resources.exact_memory),
        "use_spot": resources.use_spot,
        "max_hourly_cost": resources.max_usd_per_hour,
    }
    return _filled(keys)


def _amount(least: float, exact: bool) -> str:
    return f"{least!r}{'' if exact else '+'}" if least else ""


def _work(work: Work) -> dict[str, Any]:
    return _without_nothing(asdict(work))


def _recipient(recipient: Recipient) -> dict[str, Any]:
    events = [each.value for each in recipient.occasions]
    return _filled(
        {recipient.channel.value: recipient.address, "events": events, "sign_with": recipient.sign_with}
    )


def _deadline(job: Job) -> str | float | None:
    if job.deadline_at is not None:
        return datetime.fromtimestamp(job.deadline_at, UTC).isoformat()
    return job.deadline_seconds


def _without_nothing(keys: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in keys.items() if value is not None}


def _filled(keys: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in keys.items() if value not in ("", None, [])}
