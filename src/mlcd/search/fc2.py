"""The four recommenders of FC² (Ta, Cluster Computing 2019, section 5.2): they look at prices and bandwidth alone.

First the parameter server is chosen: of those that may serve (search/servers.py) the one with the largest network
capacity B_ps, at the price c_ps. Then the type t of the workers, at the price c_t each, and their number under an hourly
budget C (or a cap on workers):

    cost-opt      the cheapest type,          n_t = (C − c_ps) / c_t
    time-opt      the most expensive type,    n_t = (C − c_ps) / c_t
    scala-opt     most expensive type first: measure the bandwidth b_t of one worker beside one server, unless an
                  earlier job has, n_t = min(p · B_ps / b_t, (C − c_ps) / c_t); the smallest n_t is taken
    scala-opt-m   the same for a type that the user names

C is hard: c_ps + n_t · c_t never exceeds it, and a server or a type that leaves no room for one worker is passed over.
FC² knows neither deadline nor total budget, and forecasts nothing. Here the recommended cluster is measured once
before it is trusted, so that there is a forecast to show (`measure: false` leaves that out). Where a cloud does
not measure the network, b_t is computed: a worker fetches the parameters once in a step. Where the nodes exchange with
each other nothing is paid for a server, and B_ps is the capacity of a node of type t.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import floor, inf
from typing import Annotated

import numpy as np

from mlcd.core.machines import Deployment
from mlcd.core.study import Stop, Study
from mlcd.core.trial import Trial
from mlcd.core.units import show_usd
from mlcd.errors import NotFoundError, did_you_mean
from mlcd.search.arrays import Mask
from mlcd.search.bandwidth import KnownBandwidth, computed_mbps, from_earlier, measured_mbps
from mlcd.search.candidates import smallest, types_over_prices
from mlcd.search.speed_model import SpeedBeliefs
from mlcd.search.table import StudyView, Table, study_view
from mlcd.search.trials import measured_trials

_ROUNDING = 1e-9  # five dollars pay five workers at one dollar


@dataclass(frozen=True)
class Clusters:
    """What the hourly budget leaves of one type of workers, beside the parameter server that FC² takes."""

    mask: Mask  # (m,)
    server_mbps: float  # B_ps


@dataclass(frozen=True)
class CostOpt(SpeedBeliefs):
    """As many workers of the cheapest type as the hourly budget pays."""

    chooses_servers = True  # of a job with parameter servers that does not say which

    usd_per_hour: Annotated[float | None, "what all nodes may cost; none: as many as there are"] = None  # C
    max_workers: Annotated[int | None, "at most so many workers"] = None
    parameter_server: Annotated[str, "its instance type; empty: the fastest network"] = ""
    parameter_server_mbps: Annotated[float, "its bandwidth, where the offer does not say"] = 1000.0
    measure: Annotated[bool, "measure the recommended cluster once before it is chosen"] = True

    def __post_init__(self) -> None:
        if self.usd_per_hour is not None and self.usd_per_hour <= 0.0:
            raise ValueError("usd_per_hour has to be more than 0")
        if self.max_workers is not None and self.max_workers < 1:
            raise ValueError("max_workers has to be 1 or more")

    def suggest(self, study: Study) -> Deployment | Stop:
        """The recommended cluster: to be measured once, then to be trained on."""
        view = study_view(study)
        clusters = self._affordable(view)
        needed = self._to_measure_first(view, clusters)
        if needed is not None and study.probes_left:
            return needed
        choice = next(iter(self._recommended(view, clusters)), None)
        if choice is None:
            return Stop(None, self._why_nothing(view))
        if self.measure and study.probes_left and choice not in study.tried:
            return choice
        return Stop(choice, self._why(choice, view, clusters))

    def _to_measure_first(self, view: StudyView, clusters: dict[int, Clusters]) -> Deployment | None:
        return None

    def _recommended(self, view: StudyView, clusters: dict[int, Clusters]) -> Iterable[Deployment]:
        """The recommended cluster, then those to fall back on where it fails."""
        for kind in clusters:
            yield _largest(view.table, clusters[kind].mask, self._most_workers)

    @property
    def _most_workers(self) -> float:
        return inf if self.max_workers is None else float(self.max_workers)

    def _affordable(self, view: StudyView) -> dict[int, Clusters]:
        """The clusters of each type that may be taken, in the order in which FC² looks at the types."""
        may_be = _usable(view) & self._with_named_server(view.table)
        if self.usd_per_hour is not None:
            may_be &= view.table.usd_per_hour <= self.usd_per_hour * (1.0 + _ROUNDING)
        return {kind: self._beside_server(view.table, kind, may_be) for kind in self._types(view.table, may_be)}

    def _types(self, table: Table, may_be: Mask) -> list[int]:
        return types_over_prices(table, len(table.kinds), may_be)

    def _beside_server(self, table: Table, kind: int, may_be: Mask) -> Clusters:
        """Those with the fastest parameter server that leaves room for a worker; the cheapest of equals, and no more than needed."""
        mine = may_be & (table.kind == kind)
        fewest = mine & (table.servers == table.servers[mine].min())
        servers, rows = np.unique(table.server_kind[np.flatnonzero(fewest)], return_index=True)
        examples = [table.deployments[row] for row in np.flatnonzero(fewest)[rows]]
        best = min(range(len(servers)), key=lambda one: (-self._mbps_of(examples[one]), examples[one].usd_per_hour))
        return Clusters(fewest & (table.server_kind == servers[best]), self._mbps_of(examples[best]))

    def _mbps_of(self, deployment: Deployment) -> float:
        """B_ps of all its servers together."""
        one = deployment.of_servers.instance.network_gbps * 1e3 or self.parameter_server_mbps
        return one * max(1, deployment.servers)

    def _with_named_server(self, table: Table) -> Mask:
        """Those with the parameter server that the user names (m,); all where none is named."""
        if not self.parameter_server:
            return np.ones(len(table.nodes), dtype=bool)
        names = [each.of_servers.instance.name if each.servers else "" for each in table.deployments]
        named: Mask = np.array([name == self.parameter_server for name in names], dtype=bool)
        if not named.any():
            raise NotFoundError(
                f"No parameter server can be called '{self.parameter_server}'.",
                did_you_mean(self.parameter_server, set(names)) if any(names) else "Ask for `topology: ps`.",
            )
        return named

    def _why(self, choice: Deployment, view: StudyView, clusters: dict[int, Clusters]) -> str:
        return f"{choice.offer.name} is the cheapest type, with as many workers as are allowed"

    def _why_nothing(self, view: StudyView) -> str:
        if self.usd_per_hour is not None and not (view.table.usd_per_hour <= self.usd_per_hour).any():
            least = float(view.table.usd_per_hour.min())
            return (
                f"no cluster costs {show_usd(self.usd_per_hour)} an hour or less, parameter servers included: "
                f"the cheapest one costs {show_usd(least)}"
            )
        return "every recommended cluster has failed"


@dataclass(frozen=True)
class TimeOpt(CostOpt):
    """As many workers of the most expensive type as the hourly budget pays."""

    def _types(self, table: Table, may_be: Mask) -> list[int]:
        return super()._types(table, may_be)[::-1]

    def _why(self, choice: Deployment, view: StudyView, clusters: dict[int, Clusters]) -> str:
        return f"{choice.offer.name} is the most expensive type, with as many workers as are allowed"


@dataclass(frozen=True)
class ScalaOpt(CostOpt):
    """No more workers than the parameter server's network can serve."""

    saturation: Annotated[float, "share of the server's bandwidth that may be used"] = 0.8  # p
    parameters: Annotated[float, "of the model, where neither the network nor the model is measured"] = 25.6e6
    batch_size: Annotated[int, "of a worker's step, where the deployment does not say"] = 64
    most_types: Annotated[int, "instance types that are measured, evenly over the prices"] = 8

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 < self.saturation <= 1.0:
            raise ValueError("saturation is a share: more than 0 and no more than 1")
        if min(self.parameters, self.batch_size, self.most_types) <= 0:
            raise ValueError("parameters, batch_size and most_types have to be more than 0")

    def _types(self, table: Table, may_be: Mask) -> list[int]:
        return types_over_prices(table, self.most_types, may_be)[::-1]

    def _to_measure_first(self, view: StudyView, clusters: dict[int, Clusters]) -> Deployment | None:
        """The smallest cluster of the next type whose bandwidth is not known, most expensive first."""
        tried = {deployment.offer.instance.name for deployment in view.study.tried}
        for kind, found in clusters.items():
            mine = view.open & found.mask
            if view.table.kinds[kind] not in tried and mine.any():
                first = smallest(view.table, mine)
                if from_earlier(view.study, first) is None:
                    return first
        return None

    def _recommended(self, view: StudyView, clusters: dict[int, Clusters]) -> Iterable[Deployment]:
        """By n_t; of equals the most expensive."""
        found = {kind: self._known(view, kind, each) for kind, each in clusters.items()}
        known = {kind: each for kind, each in found.items() if each is not None}
        for kind in sorted(known, key=lambda kind: self._wanted(view.table, clusters[kind], known[kind])):
            yield _largest(view.table, clusters[kind].mask, self._workers(clusters[kind], known[kind]))
        if not known and not view.study.trials:
            yield from super()._recommended(view, clusters)

    def _wanted(self, table: Table, clusters: Clusters, known: KnownBandwidth) -> int:
        """n_t, at least one, whether or not there are as many of the type."""
        example = table.deployments[int(np.flatnonzero(clusters.mask)[0])]
        c_t = example.offer.whole_usd_per_hour
        c_ps = example.usd_per_hour - c_t * example.workers
        paid = (self.usd_per_hour - c_ps) / c_t if self.usd_per_hour is not None and c_t > 0.0 else inf
        most = min(self._workers(clusters, known), paid, float(table.workers.max()))
        return max(1, floor(most + _ROUNDING))

    def _workers(self, clusters: Clusters, known: KnownBandwidth) -> float:
        """n_t as far as the network and the cap on workers allow it; the clusters are those that C pays."""
        return min(self._most_workers, self.saturation * clusters.server_mbps / known.mbps)

    def _known(self, view: StudyView, kind: int, clusters: Clusters) -> KnownBandwidth | None:
        """b_t on the type's smallest cluster, as we or an earlier job measured it, or else on a larger one."""
        name, first = view.table.kinds[kind], smallest(view.table, clusters.mask)
        own = [trial for trial in measured_trials(view.study) if trial.deployment.offer.instance.name == name]
        least = min(own, key=lambda trial: trial.deployment.nodes, default=None)
        earlier = from_earlier(view.study, first)
        if least is None or (earlier is not None and least.deployment.nodes > first.nodes):
            return earlier
        return KnownBandwidth(self._mbps(least))

    def _mbps(self, trial: Trial) -> float:
        """What a worker received, or must have."""
        where, measurement = trial.deployment, trial.measurement
        assert measurement is not None, "it was measured"
        return measured_mbps(where, measurement) or computed_mbps(where, measurement, self.parameters, self.batch_size)

    def _why(self, choice: Deployment, view: StudyView, clusters: dict[int, Clusters]) -> str:
        full = "the parameter server's network is full" if choice.servers else "a node's network is full"
        return f"{choice.offer.name} needs the fewest workers before {full}{self._bandwidth(choice, view, clusters)}"

    def _bandwidth(self, choice: Deployment, view: StudyView, clusters: dict[int, Clusters]) -> str:
        """In words what a worker takes of how much, and who has measured it."""
        kind = view.table.kinds.index(choice.offer.instance.name)
        known = self._known(view, kind, clusters[kind]) if kind in clusters else None
        if known is None:
            return ""
        by = f" (measured by job {known.measured_by})" if known.measured_by else ""
        room = self._workers(clusters[kind], known) >= choice.workers + 1
        capped = "; it has room for more, but no more are allowed" if room else ""
        return f": one takes {known.mbps:,.3g}{by} of {clusters[kind].server_mbps:,.0f} Mbit/s{capped}"


@dataclass(frozen=True)
class ScalaOptM(ScalaOpt):
    """Scala-Opt for a type that the user names; the most expensive where none is named."""

    instance_type: Annotated[str, "of the workers; empty: the most expensive"] = ""

    def _types(self, table: Table, may_be: Mask) -> list[int]:
        if not self.instance_type:
            return super()._types(table, may_be)[:1]
        if self.instance_type not in table.kinds:
            raise NotFoundError(
                f"No instance type is called '{self.instance_type}'.",
                did_you_mean(self.instance_type, table.kinds),
            )
        kind = table.kinds.index(self.instance_type)
        return [kind] if (may_be & (table.kind == kind)).any() else []

    def _why(self, choice: Deployment, view: StudyView, clusters: dict[int, Clusters]) -> str:
        full = "the parameter server's network" if choice.servers else "a node's network"
        return f"more workers of {choice.offer.name} would fill {full}{self._bandwidth(choice, view, clusters)}"


def _usable(view: StudyView) -> Mask:
    """Deployments that did not fail (m,)."""
    table = view.table
    measured = np.zeros(len(table.nodes), dtype=bool)
    measured[table.rows(tuple(trial.deployment for trial in measured_trials(view.study)))] = True
    return np.asarray(view.open | measured)


def _largest(table: Table, mine: Mask, workers: float) -> Deployment:
    """The largest cluster with no more than so many workers; the smallest where all are larger."""
    sizes = np.unique(table.workers[mine])
    fitting = sizes[sizes <= max(workers + _ROUNDING, sizes[0])]
    return smallest(table, mine & (table.workers == fitting[-1]))
