"""Paleo (Qi et al., ICLR 2017): a training's speed from an analytical model, without a single probe.

    t_compute = F · b / (n · g · R · e)             F  operations of a sample, forward and backward
                                                    b  global batch,  n  nodes,  g  devices of a node
                                                    R  operations per second of a device,  e  share of R reached
    t_comm    = 2 · (n − 1)/n · 4 P / B             ring all-reduce over n nodes;  P  parameters, four bytes each
                2 · n · 4 P / (s · B)               n workers and s parameter servers;  B  bytes per second of a node;
                                                    s of the deployment, where its job has `topology: ps`
    speed     = b / (t_compute + t_comm)            computing and communicating take turns

One node does not communicate. The facts about the program are options, or come from a table of known models
(model_facts); without them there is nothing to compute with. Those about the machines come from the offers, and where these are silent from the tables below. Such speeds may be off by a factor: the beliefs
have a band of a factor of two.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from mlcd.core.machines import Deployment, InstanceType
from mlcd.core.study import Belief, Stop, Study
from mlcd.errors import UserError, did_you_mean
from mlcd_bench.papers.model_facts import MODELS, ModelFacts, known_model, named_batch

# Operations per second in single precision, as the makers state them; the first name found in the GPU's counts.
TERAFLOPS_OF_GPU = {
    "h200": 67.0, "h100": 67.0, "a100": 19.5, "a10g": 31.2, "a10": 31.2, "a40": 37.4, "a6000": 38.7,
    "v100": 15.7, "p100": 9.3, "p4": 5.5, "t4g": 8.1, "t4": 8.1, "l40s": 91.6, "l4": 30.3, "k80": 4.1,
    "k520": 2.4, "m60": 4.8, "2080ti": 13.4, "rtx": 13.4,
}  # fmt: skip
TERAFLOPS_OF_UNKNOWN_GPU = 10.0
TERAFLOPS_OF_VCPU = 0.04
BAND = 2.0


class MissingFactsError(UserError):
    """Nothing says what the program computes."""


@dataclass(frozen=True)
class Paleo:
    """Computes speeds from operations and bandwidth, and tries nothing."""

    model: Annotated[str, "a known model, such as resnet-50 or bert-base, for what the next three do not say"] = ""
    flops_per_sample: Annotated[float, "operations of a sample, forward and backward; 0: the model's"] = 0.0
    parameters: Annotated[float, "parameters; 0: the model's"] = 0.0
    batch_size: Annotated[int, "global, where the deployment does not say; 0: the model's"] = 0
    communication: Annotated[Literal["all-reduce", "parameter-server"], "how gradients travel"] = "all-reduce"
    servers: Annotated[int, "parameter servers, where the deployment has none"] = 1
    bandwidth_gbps: Annotated[float, "of a node, where the offer does not say"] = 10.0
    efficiency: Annotated[float, "share of its peak speed that a device reaches"] = 0.5
    device_teraflops: Annotated[dict[str, float], "by GPU model or 'vcpu'; before the built-in table"] = field(
        default_factory=dict
    )

    def __post_init__(self) -> None:
        if self.communication not in ("all-reduce", "parameter-server"):
            raise UserError(
                f"paleo: communication '{self.communication}' is not known.",
                "Use all-reduce or parameter-server.",
            )
        if self.model and self.model not in MODELS:
            raise UserError(f"paleo: no model is called '{self.model}'.", did_you_mean(self.model, MODELS))
        if min(self.facts.flops_per_sample, self.facts.parameters, self.facts.batch_size) <= 0:
            raise MissingFactsError(
                "paleo computes with the operations, the parameters and the batch size of the model, which it does not know.",
                f"Set model to one of {', '.join(MODELS)}, or flops_per_sample, parameters and batch_size.",
            )

    @staticmethod
    def options_for(workload: str) -> dict[str, Any]:
        """The options that a workload's name tells; none where it names no known model."""
        model, batch_size = known_model(workload), named_batch(workload)
        if model is None:
            return {}
        return {"model": model} | ({} if batch_size is None else {"batch_size": batch_size})

    @property
    def facts(self) -> ModelFacts:
        """What the options say of the program, and where they are silent the table."""
        table = MODELS.get(self.model, ModelFacts(0.0, 0.0, 0))
        return ModelFacts(
            self.flops_per_sample or table.flops_per_sample,
            self.parameters or table.parameters,
            self.batch_size or table.batch_size,
        )

    def suggest(self, study: Study) -> Stop:
        """The best by the goal, as computed; where none keeps the limits, the nearest. Nothing is tried."""
        return Stop(
            min(study.space, key=lambda deployment: self._merit(study, deployment)),
            "computed from operations, parameters and bandwidth; nothing was measured",
        )

    def beliefs(self, study: Study) -> tuple[Belief, ...]:
        """The computed speeds."""
        speeds = ((deployment, self.speed(deployment)) for deployment in study.space)
        return tuple(Belief(deployment, speed, speed / BAND, speed * BAND) for deployment, speed in speeds)

    def speed(self, deployment: Deployment) -> float:
        """Computed samples per second."""
        batch = deployment.batch_size or self.facts.batch_size
        return batch / (self._compute_seconds(deployment, batch) + self._communication_seconds(deployment))

    def _compute_seconds(self, deployment: Deployment, batch: int) -> float:
        flops = self._node_teraflops(deployment.offer.instance) * 1e12 * self.efficiency
        return self.facts.flops_per_sample * batch / (deployment.workers * flops)

    def _communication_seconds(self, deployment: Deployment) -> float:
        nodes = deployment.nodes
        if nodes == 1:
            return 0.0
        workers, servers = deployment.workers, deployment.servers or self.servers
        bytes_per_second = (deployment.of_servers.instance.network_gbps or self.bandwidth_gbps) * 1e9 / 8.0
        once = 4.0 * self.facts.parameters / bytes_per_second
        if self.communication == "all-reduce" and not deployment.servers:
            return 2.0 * (nodes - 1) / nodes * once
        return 2.0 * workers * once / servers

    def _node_teraflops(self, instance: InstanceType) -> float:
        if instance.gpus:
            return instance.gpus * self._gpu_teraflops(instance)
        return max(1.0, instance.vcpus) * self.device_teraflops.get("vcpu", TERAFLOPS_OF_VCPU)

    def _gpu_teraflops(self, instance: InstanceType) -> float:
        name = (instance.gpu_model or instance.name).lower().replace(" ", "").replace("-", "")
        for table in (self.device_teraflops, TERAFLOPS_OF_GPU):
            for model, teraflops in table.items():
                if model.lower() in name:
                    return teraflops
        return TERAFLOPS_OF_UNKNOWN_GPU

    def _merit(self, study: Study, deployment: Deployment) -> tuple[float, float]:
        total = study.total(deployment, self.speed(deployment))
        excess = study.goal.excess(total.seconds, total.usd)
        return max(excess, 1.0), study.goal.value(total.seconds, total.usd)
