"""The network of an emulation: one switch, a shaped link to each host, and what can go wrong on it.

The switch is a bridge in a namespace of its own, so that no rule of this computer's firewall touches it. One more
link joins it to this computer, which has the gateway's address: hosts reach the API there and nothing beyond.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from mlcd.errors import CloudError, UserError
from mlcd_emulate.emulation import Emulation, port_of
from mlcd_emulate.system import run_tool, try_tool

METADATA_ADDRESS = "169.254.169.254"
NAMESPACES = Path("/run/netns")
_CHOICES = tuple(IPv4Network(f"10.{second}.0.0/16") for second in range(72, 136))
_BURST_S = 0.004  # a timer tick of slow kernels
_LOCK = Path("/run/mlcd-emulate.lock")


def gateway_of(network: IPv4Network) -> IPv4Address:
    """This computer's own address among the hosts."""
    return network.network_address + 1


def make_switch(emulation: Emulation, wanted: IPv4Network | None = None) -> IPv4Network:
    """Make the switch with the link to it; gives the range of addresses, which no other emulation has."""
    with one_at_a_time():
        network = _free_network(wanted)
        run_tool("ip", "netns", "add", emulation.switch)
        run_tool(
            "ip", "-n", emulation.switch, "-batch", "-",
            lines=("link set lo up", "link add br0 type bridge", "link set br0 up"),
        )  # fmt: skip
        run_tool("ip", "-batch", "-", lines=_link_to_switch(emulation, network))
        run_tool("ip", "-n", emulation.switch, "link", "set", "uplink", "master", "br0", "up")
        _ask_often(emulation)
    return network


@dataclass(frozen=True)
class Link:
    """A host's way to the switch."""

    emulation: Emulation
    address: IPv4Address

    @property
    def namespace(self) -> str:
        """The host's network namespace."""
        return self.emulation.namespace(self.address)

    @property
    def port(self) -> str:
        """The switch's end."""
        return port_of(self.address)

    def make(self, prefix: int, mbit: float) -> None:
        """Make the namespace and a link of this speed, both ways."""
        run_tool("ip", "netns", "add", self.namespace)
        ends = f"link add {self.port} netns {self.emulation.switch} type veth peer name eth0 netns {self.namespace}"
        run_tool("ip", "-batch", "-", lines=(ends,))
        self._on_switch(f"link set {self.port} master br0 up")
        run_tool(
            "ip", "-n", self.namespace, "-batch", "-",
            lines=(
                "link set lo up",
                f"addr add {METADATA_ADDRESS}/32 dev lo",
                f"addr add {self.address}/{prefix} dev eth0",
                "link set eth0 up",
            ),
        )  # fmt: skip
        self.shape(mbit)

    def shape(self, mbit: float) -> None:
        """Let the link carry so much, both ways."""
        burst = max(16_000, round(mbit * 1e6 / 8 * _BURST_S))
        rule = ("root", "tbf", "rate", f"{round(mbit * 1000)}kbit", "burst", str(burst), "latency", "100ms")
        run_tool("tc", "-n", self.namespace, "qdisc", "replace", "dev", "eth0", *rule)
        run_tool("tc", "-n", self.emulation.switch, "qdisc", "replace", "dev", self.port, *rule)

    def connect(self, connected: bool) -> None:
        """Plug the link in, or pull it: nobody is told, packets just vanish."""
        self._on_switch(f"link set {self.port} {'up' if connected else 'down'}")

    def lose(self, percent: float) -> None:
        """Drop so many packets of a hundred, each way; nftables can on every kernel, netem is often missing."""
        inside = ("ip", "netns", "exec", self.emulation.switch, "nft")
        try_tool(*inside, "delete", "table", "bridge", self.port)
        if percent > 0:
            run_tool(*inside, "-f", "-", lines=self._loss_rules(percent))

    def remove(self) -> None:
        """Remove the link and the namespace; both may be gone."""
        try_tool("ip", "netns", "exec", self.emulation.switch, "nft", "delete", "table", "bridge", self.port)
        try_tool("ip", "-n", self.emulation.switch, "link", "del", self.port)
        try_tool("ip", "netns", "del", self.namespace)

    def _loss_rules(self, percent: float) -> Iterator[str]:
        draw = f"numgen random mod 10000 < {round(percent * 100)} drop"
        yield f"table bridge {self.port} {{"
        yield "chain lossy {"
        yield "type filter hook forward priority 0; policy accept;"
        yield f'iifname "{self.port}" {draw}'
        yield f'oifname "{self.port}" {draw}'
        yield "}"
        yield "}"

    def _on_switch(self, line: str) -> None:
        run_tool("ip", "-n", self.emulation.switch, "-batch", "-", lines=(line,))


def namespaces_of(emulation: Emulation) -> list[str]:
    """The network namespaces of an emulation that exist."""
    if not NAMESPACES.is_dir():
        return []
    return sorted(each.name for each in NAMESPACES.iterdir() if each.name.startswith(emulation.namespaces))


def _link_to_switch(emulation: Emulation, network: IPv4Network) -> tuple[str, ...]:
    return (
        f"link add {emulation.link} type veth peer name uplink netns {emulation.switch}",
        f"addr add {gateway_of(network)}/{network.prefixlen} dev {emulation.link}",
        f"link set {emulation.link} up",
    )


def _ask_often(emulation: Emulation) -> None:
    """Who looks for a host that is about to boot finds it a tenth of a second later, not a whole one."""
    neighbours = Path("/proc/sys/net/ipv4/neigh") / emulation.link
    (neighbours / "retrans_time_ms").write_text("100")
    (neighbours / "mcast_solicit").write_text("30")


def _free_network(wanted: IPv4Network | None) -> IPv4Network:
    taken = _networks_in_use()
    for choice in (wanted,) if wanted else _CHOICES:
        if not any(choice.overlaps(each) for each in taken):
            return choice
    if wanted:
        raise UserError(f"The addresses {wanted} are in use on this computer.", "Leave --network out, or try another.")
    raise CloudError("No range of addresses is free for an emulation.", "Name one with --network 10.200.0.0/16.")


def _networks_in_use() -> list[IPv4Network]:
    routes = json.loads(run_tool("ip", "-4", "-json", "route", "show", "table", "all") or "[]")
    found = (route["dst"] for route in routes if route.get("dst", "default") != "default")
    return [IPv4Network(each, strict=False) for each in found]


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Two emulations that start together choose neither the same addresses nor the same name."""
    with _LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
