"""The four recommenders of FC² (Ta, Cluster Computing 2019, section 5.2): they look at prices and bandwidth alone.

First the parameter server is chosen: the type with the largest network capacity B_ps, at the price c_ps. Then the
type t of the workers, at the price c_t each, and their number under an hourly budget C (or a cap on workers):

    cost-opt      the cheapest type,          n_t = (C − c_ps) / c_t
    time-opt      the most expensive type,    n_t = (C − c_ps) / c_t
    scala-opt     most expensive type first: measure the bandwidth b_t of one worker on the smallest cluster,
                  n_t = min(p · B_ps / b_t, (C − c_ps) / c_t); the type with the smallest n_t is taken
    scala-opt-m   the same for a type that the user names

FC² knows neither deadline nor total budget, and forecasts nothing. Here the recommended cluster is measured once
before it is trusted, so that there is a forecast to show (`measure: false` leaves that out). Where a cloud does
not measure the network, b_t is computed: a worker sends its gradient and fetches the parameters once in a step.
In a job with `topology: ps` the clusters bring their servers along, of the workers' type: those with the fewest are taken.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import floor, inf
from typing import Annotated

import numpy as np

from mlcd.core.machines import Deployment
from mlcd.core.study import Stop, Study
from mlcd.core.trial import Measurement
from mlcd.errors import NotFoundError, did_you_mean
from mlcd.search.arrays import Mask
from mlcd.search.candidates import smallest, types_over_prices
from mlcd.search.speed_model import SpeedBeliefs
from mlcd.search.table import StudyView, Table, study_view
from mlcd.search.trials import measured_trials


@dataclass(frozen=True)
class ParameterServer:
    """The node that keeps the parameters."""

    usd_per_hour: float  # c_ps
    mbps: float  # B_ps


@dataclass(frozen=True)
class CostOpt(SpeedBeliefs):
    """As many workers of the cheapest type as the hourly budget pays."""

    usd_per_hour: Annotated[float | None, "what all nodes may cost; none: as many as there are"] = None  # C
    max_workers: Annotated[int | None, "at most so many workers"] = None
    parameter_server: Annotated[str, "its instance type; empty: the fastest network"] = ""
    parameter_server_mbps: Annotated[float, "its bandwidth, where the offer does not say"] = 1000.0
    measure: Annotated[bool, "measure the recommended cluster once before it is chosen"] = True

    def suggest(self, study: Study) -> Deployment | Stop:
        """The recommended cluster: to be measured once, then to be trained on."""
        view = study_view(study)
        needed = self._to_measure_first(view)
        if needed is not None and study.probes_left:
            return needed
        choice = next(iter(self._recommended(view)), None)
        if choice is None:
            return Stop(None, "every recommended cluster has failed")
        if self.measure and study.probes_left and choice not in study.tried:
            return choice
        return Stop(choice, self._why(choice))

    def _to_measure_first(self, view: StudyView) -> Deployment | None:
        return None

    def _recommended(self, view: StudyView) -> Iterable[Deployment]:
        """The recommended cluster, then those to fall back on where it fails."""
        for kind in self._types(view.table):
            usable = _usable(view, kind)
            if usable.any():
                yield _cluster(view.table, usable, self._paid_workers(view.table, kind))

    def _types(self, table: Table) -> list[int]:
        return types_over_prices(table, len(table.kinds))

    def _paid_workers(self, table: Table, kind: int) -> float:
        """(C − c_ps) / c_t, or the cap on workers."""
        most = inf if self.max_workers is None else float(self.max_workers)
        if self.usd_per_hour is None:
            return most
        price = float(table.node_usd_per_hour[table.kind == kind].min())
        return min(most, (self.usd_per_hour - self._server(table).usd_per_hour) / price)

    def _server(self, table: Table) -> ParameterServer:
        """The parameter server: named by the user, or the fastest network; the cheapest of equals."""
        offers = {deployment.offer for deployment in table.deployments if self._may_serve(deployment)}
        if not offers:
            raise NotFoundError(
                f"No instance type is called '{self.parameter_server}'.",
                did_you_mean(self.parameter_server, table.kinds),
            )
        best = min(offers, key=lambda offer: (-offer.instance.network_gbps, offer.whole_usd_per_hour))
        return ParameterServer(best.whole_usd_per_hour, best.instance.network_gbps * 1e3 or self.parameter_server_mbps)

    def _may_serve(self, deployment: Deployment) -> bool:
        return self.parameter_server in ("", deployment.offer.instance.name)

    def _why(self, choice: Deployment) -> str:
        return f"{choice.offer.name} is the cheapest type, with as many workers as are allowed"


@dataclass(frozen=True)
class TimeOpt(CostOpt):
    """As many workers of the most expensive type as the hourly budget pays."""

    def _types(self, table: Table) -> list[int]:
        return super()._types(table)[::-1]

    def _why(self, choice: Deployment) -> str:
        return f"{choice.offer.name} is the most expensive type, with as many workers as are allowed"


@dataclass(frozen=True)
class ScalaOpt(CostOpt):
    """No more workers than the parameter server's network can serve."""

    saturation: Annotated[float, "share of the server's bandwidth that may be used"] = 0.8  # p
    parameters: Annotated[float, "of the model, where the cloud does not measure the network"] = 25.6e6
    batch_size: Annotated[int, "of a worker's step, where the deployment does not say"] = 64
    most_types: Annotated[int, "instance types that are measured, evenly over the prices"] = 8

    def _types(self, table: Table) -> list[int]:
        return types_over_prices(table, self.most_types)[::-1]

    def _to_measure_first(self, view: StudyView) -> Deployment | None:
        """The smallest cluster of the next type whose bandwidth is not known, most expensive first."""
        known = {trial.deployment.offer.instance.name for trial in view.study.trials}
        known |= {deployment.offer.instance.name for deployment in view.study.pending}
        for kind in self._types(view.table):
            mine = view.open & (view.table.kind == kind)
            if view.table.kinds[kind] not in known and mine.any():
                return smallest(view.table, mine)
        return None

    def _recommended(self, view: StudyView) -> Iterable[Deployment]:
        workers = self._workers_by_type(view)
        for kind in sorted(workers, key=lambda kind: workers[kind]):
            usable = _usable(view, kind)
            if usable.any():
                yield _cluster(view.table, usable, workers[kind])
        if not workers and not view.study.trials:
            yield from super()._recommended(view)

    def _workers_by_type(self, view: StudyView) -> dict[int, int]:
        """n_t of each type that was measured, most expensive first."""
        table, mbps = view.table, self._worker_mbps(view.study)
        known = [kind for kind in self._types(table) if table.kinds[kind] in mbps]
        return {kind: self._workers(table, kind, mbps[table.kinds[kind]]) for kind in known}

    def _workers(self, table: Table, kind: int, mbps: float) -> int:
        """n_t = min(p · B_ps / b_t, (C − c_ps) / c_t), whole and at least one."""
        served = self.saturation * self._server(table).mbps / mbps
        most = float(table.workers.max())
        return max(1, floor(min(served, self._paid_workers(table, kind), most) + 1e-9))

    def _worker_mbps(self, study: Study) -> dict[str, float]:
        """b_t of each measured type, on the smallest cluster of it that was tried."""
        smallest_first = sorted(measured_trials(study), key=lambda trial: -trial.deployment.nodes)
        return {
            trial.deployment.offer.instance.name: self._mbps(trial.deployment, trial.measurement)
            for trial in smallest_first
            if trial.measurement is not None
        }

    def _mbps(self, deployment: Deployment, measurement: Measurement) -> float:
        if measurement.usage.network_mbps > 0.0:
            return measurement.usage.network_mbps
        batch = deployment.batch_size or self.batch_size * deployment.workers
        steps_per_second = measurement.samples_per_second / batch
        return 2.0 * 32.0 * self.parameters * steps_per_second / 1e6

    def _why(self, choice: Deployment) -> str:
        return f"{choice.offer.name} needs the fewest workers before the parameter server's network is full"


@dataclass(frozen=True)
class ScalaOptM(ScalaOpt):
    """Scala-Opt for a type that the user names; the most expensive where none is named."""

    instance_type: Annotated[str, "of the workers; empty: the most expensive"] = ""

    def _types(self, table: Table) -> list[int]:
        if not self.instance_type:
            return super()._types(table)[:1]
        if self.instance_type not in table.kinds:
            raise NotFoundError(
                f"No instance type is called '{self.instance_type}'.",
                did_you_mean(self.instance_type, table.kinds),
            )
        return [table.kinds.index(self.instance_type)]

    def _why(self, choice: Deployment) -> str:
        return f"more workers of {choice.offer.name} would fill the parameter server's network"


def _usable(view: StudyView, kind: int) -> Mask:
    """Deployments of a type that did not fail (m,)."""
    table = view.table
    measured = np.zeros(len(table.nodes), dtype=bool)
    measured[table.rows(tuple(trial.deployment for trial in measured_trials(view.study)))] = True
    return np.asarray((view.open | measured) & (table.kind == kind))


def _cluster(table: Table, usable: Mask, workers: float) -> Deployment:
    """The largest cluster with no more than so many workers; the smallest where all are larger."""
    fewest = usable & (table.servers == table.servers[usable].min())
    sizes = np.unique(table.workers[fewest])
    fitting = sizes[sizes <= max(workers + 1e-9, sizes[0])]  # five dollars pay five workers at one dollar
    return smallest(table, fewest & (table.workers == fitting[-1]))
