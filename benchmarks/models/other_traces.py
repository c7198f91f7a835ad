"""The step-time models on traces that they were not made with: jobs without gradient noise, step times alone.

    python benchmarks/models/other_traces.py TRACE.csv [TRACE.csv …]

For every job, errors of the step time over all its deployments:
    partial     two profiled deployments for each instance type
    universal   one probe on one device; shapes from jobs whose name begins otherwise (LM-b10 does not learn from LM-b20)
    anchor      the same probe; every deployment as fast per device as the probed one (what no model would say)
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from mlcd.catalog.traces import Workload, read_workloads
from mlcd.forecast.design import profile_partly
from mlcd.forecast.parallel import Placement
from mlcd.forecast.step_fit import Profile, fit_steps
from mlcd.forecast.universal import Probe, universal_model
from mlcd_bench.models.data import family_of


def main(files: list[str]) -> None:
    for file in files:
        jobs = {workload.name: steps_of(workload) for workload in read_workloads(Path(file))}
        jobs = {name: steps for name, steps in jobs.items() if steps}
        laws = {name: laws_of(steps) for name, steps in jobs.items()}
        rows = []
        for name, steps in jobs.items():
            others = [laws[other] for other in jobs if other.split("-")[0] != name.split("-")[0]]
            rows.append((partial_error(steps), *universal_errors(steps, others)))
            print(f"{name:36} {len(steps):4}  " + "  ".join(f"{100 * error:6.1f} %" for error in rows[-1]))
        means = "  ".join(f"{100 * error:6.1f} %" for error in np.mean(rows, axis=0))
        print(f"{Path(file).stem + ': mean':36}       {means}   (partial, universal, anchor)")


def steps_of(workload: Workload) -> dict[Placement, float]:
    steps = {}
    for deployment in workload.deployments:
        rate, batch = workload.throughput(deployment), deployment.batch_size
        if rate is not None and batch is not None:
            gpus = max(deployment.offer.instance.gpus, 1)
            name = deployment.offer.instance.name
            steps[Placement(family_of(name, gpus), name, deployment.nodes, gpus, batch)] = batch / rate
    return steps


def families(steps: dict[Placement, float]) -> dict[str, list[Placement]]:
    return {one.family: [two for two in steps if two.family == one.family] for one in steps}


def laws_of(steps: dict[Placement, float]) -> dict:
    return {
        family: fit_steps(placements, [Profile(one, steps[one]) for one in placements]).law()
        for family, placements in families(steps).items()
    }


def partial_error(steps: dict[Placement, float]) -> float:
    errors = []
    for placements in families(steps).values():
        model = profile_partly(placements, steps.__getitem__, per_type=2)
        errors += [abs(model.step(one).value / steps[one] - 1) for one in placements]
    return float(np.mean(errors))


def universal_errors(steps: dict[Placement, float], others: list) -> tuple[float, float]:
    single = [one for one in steps if one.devices == 1]
    if not single:
        return float("nan"), float("nan")
    slowest = max(single, key=lambda one: (steps[one] / one.batch, one.batch))
    model = universal_model(Probe(slowest, steps[slowest]), min(one.micro_batch for one in steps), others)
    anchor = steps[slowest] / slowest.local_batch
    universal = [abs(model.step(one).value / steps[one] - 1) for one in steps]
    naive = [abs(anchor * one.local_batch / steps[one] - 1) for one in steps]
    return float(np.mean(universal)), float(np.mean(naive))


if __name__ == "__main__":
    main(sys.argv[1:])
