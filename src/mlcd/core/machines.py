"""What can be rented: a kind of machine, that kind at a price, and a number of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property


@dataclass(frozen=True)
class InstanceType:
    """A kind of machine."""

    name: str
    vcpus: float = 0.0
    memory_gib: float = 0.0
    gpus: int = 0
    gpu_model: str = ""
    gpu_memory_gib: float = 0.0  # of one GPU
    network_gbps: float = 0.0  # 0: not known


@dataclass(frozen=True)
class Offer:
    """A kind of machine at a price in one region; not a promise of capacity."""

    cloud: str
    instance: InstanceType
    usd_per_hour: float  # of one node
    max_nodes: int
    region: str = ""
    spot: bool = False
    kind: str = "vm"  # or "function"
    priced_at: str = ""  # ISO date of the price, where it has one
    source: str = ""  # who says so
    losses_per_hour: float = 0.0  # how often its machines are expected to be taken back
    usd_per_gib_hour: float = 0.0  # of memory, on top, where nodes are cut to measure: see Deployment.memory_gib
    extras_usd_per_hour: float = 0.0  # of one node, on top of its price: disk, public address
    store_usd_per_hour: float = 0.0  # of what several nodes need once for all of them: a parameter store
    lifetime_seconds: float = 0.0  # a node runs no longer in one go and is then started anew; 0: no such limit
    least_seconds: float = 0.0  # that a node is charged for, however short its life
    mixes: str = ""  # one task may rent all offers with the same word here; empty: its cloud rents one type for a task
    shared_vcpus: float = 0.0  # that all of those with the same `pool` can have together; 0: not known
    pool: str = ""  # a quota, or a computer's cores

    @property
    def whole_usd_per_hour(self) -> float:
        """What one node costs with all its memory and all that comes with it."""
        return self.usd_per_hour + self.usd_per_gib_hour * self.instance.memory_gib + self.extras_usd_per_hour

    @property
    def name(self) -> str:
        """The instance's name, marked where it may be taken back."""
        return f"{self.instance.name} (spot)" if self.spot else self.instance.name


@dataclass(frozen=True)
class Group:
    """The nodes of a deployment that are of one type."""

    offer: Offer
    nodes: int
    serves: bool = False  # all of them, and nothing else
    spared_usd_per_hour: float = 0.0  # of one, for memory that is not rented

    @property
    def usd_per_hour(self) -> float:
        """Price of all of them, with all that comes with them."""
        return (self.offer.whole_usd_per_hour - self.spared_usd_per_hour) * self.nodes

    def __str__(self) -> str:
        return f"{self.nodes} × {self.offer.name}{' serving' if self.serves else ''}"


@dataclass(frozen=True)
class Deployment:
    """Offer × nodes × batch size: one point of the space. Nothing is running yet."""

    offer: Offer  # of the nodes that train
    nodes: int
    batch_size: int | None = None  # global, over all nodes; None: the program's own
    accumulation: int = 1  # backward passes to each step, where a node cannot hold its share at once
    servers: int = 0  # of the nodes: keep the parameters and train nothing; they are the last ones
    server_offer: Offer | None = None  # of those; None: the same as of the others
    # Of each node, where it is cut to measure; 0: all that the machine has. It tells no deployments apart.
    memory_gib: float = field(default=0.0, compare=False)

    @cached_property
    def key(self) -> str:
        """A short name that tells this deployment from every other of its study."""
        place = f"@{self.offer.region}" if self.offer.region else ""
        spot = "-spot" if self.offer.spot else ""
        batch = f"/b{self.batch_size}" if self.batch_size is not None else ""
        passes = f"/a{self.accumulation}" if self.accumulation > 1 else ""
        serving = f"/s{self.servers}" if self.servers else ""
        other = f"-{self.server_offer.instance.name}" if self.server_offer is not None else ""
        return f"{self.nodes}x{self.offer.instance.name}{spot}{place}{batch}{passes}{serving}{other}"

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """What is rented, type by type; by rank."""
        if self.server_offer is None:
            return (Group(self.offer, self.nodes, spared_usd_per_hour=self.spared_usd_per_hour),)
        workers = Group(self.offer, self.workers, spared_usd_per_hour=self.spared_usd_per_hour)
        return workers, Group(self.server_offer, self.servers, serves=True)

    def offer_of(self, rank: int) -> Offer:
        """What the node of that rank is."""
        return self.offer if self.server_offer is None or rank < self.workers else self.server_offer

    @property
    def of_servers(self) -> Offer:
        """What the parameter servers are, or would be."""
        return self.server_offer or self.offer

    @property
    def types(self) -> tuple[Offer, Offer]:
        """What the workers are, and what the parameter servers."""
        return self.offer, self.of_servers

    @property
    def workers(self) -> int:
        """The nodes that train."""
        return self.nodes - self.servers

    @property
    def usd_per_hour(self) -> float:
        """Price of all nodes together, those that serve as well, with all that comes with them."""
        shared = self.offer.store_usd_per_hour if self.nodes > 1 else 0.0
        return sum(group.usd_per_hour for group in self.groups) + shared

    @property
    def node_memory_gib(self) -> float:
        """What each node that trains is given."""
        return self.memory_gib or self.offer.instance.memory_gib

    @property
    def is_cut(self) -> bool:
        """Whether these nodes have less memory than their machines."""
        return self.node_memory_gib < self.offer.instance.memory_gib

    @property
    def spared_usd_per_hour(self) -> float:
        """What such a node costs less than one with all the memory that there is."""
        return self.offer.usd_per_gib_hour * (self.offer.instance.memory_gib - self.node_memory_gib)

    @property
    def losses_per_hour(self) -> float:
        """How often machines of any of its types are expected to be taken back."""
        return self.offer.losses_per_hour + (
            self.server_offer.losses_per_hour if self.server_offer is not None else 0.0
        )

    @property
    def least_seconds(self) -> float:
        """What a node is charged for, however short its life."""
        return max(offer.least_seconds for offer in self.types)

    @property
    def too_large(self) -> Group | None:
        """The first type of which there is not as much as this asks for; None: it may be had."""
        if self.server_offer is None:
            return self.groups[0] if self.nodes > self.offer.max_nodes else None
        taken: dict[str, float] = {}
        for group in self.groups:
            offer = group.offer
            taken[offer.pool] = taken.get(offer.pool, 0.0) + group.nodes * offer.instance.vcpus
            if group.nodes > offer.max_nodes or (offer.shared_vcpus and taken[offer.pool] > offer.shared_vcpus):
                return group
        return None

    def usd(self, seconds: float) -> float:
        """Price of all nodes for that long."""
        return self.usd_per_hour * seconds / 3600.0

    def rental_usd(self, seconds: float) -> float:
        """Price of renting all nodes for that long, and for no less than is charged at least."""
        return self.usd(max(seconds, self.least_seconds))

    @property
    def machines(self) -> str:
        """How many of what, in words, those that serve named as such."""
        if self.server_offer is None and self.servers:
            return f"{self.nodes} × {self.offer.name} ({self.servers} serving)"
        return " + ".join(map(str, self.groups))

    def __str__(self) -> str:
        batch = f", batch {self.batch_size}" if self.batch_size is not None else ""
        passes = f" in {self.accumulation} passes" if self.accumulation > 1 else ""
        return f"{self.machines}{batch}{passes}"

    def __hash__(self) -> int:
        return hash(self.key)
