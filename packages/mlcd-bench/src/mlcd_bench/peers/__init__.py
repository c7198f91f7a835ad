"""Other libraries under the same protocol, each in its own file; needs the extra `mlcd[peers]`."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec

from mlcd.errors import MissingExtraError
from mlcd.search.base import Searcher

# name → module, class, and the packages that it cannot do without
PEERS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "optuna-tpe": ("mlcd_bench.peers.optuna_tpe", "OptunaTPE", ("optuna",)),
    "optuna-gp": ("mlcd_bench.peers.optuna_gp", "OptunaGP", ("optuna", "torch")),
    "ax": ("mlcd_bench.peers.ax", "Ax", ("ax",)),
    "smac": ("mlcd_bench.peers.smac", "Smac", ("smac",)),
    "botorch-eipc": ("mlcd_bench.peers.botorch_eipc", "BoTorchEIPerCost", ("botorch",)),
}


def check_installed(name: str) -> None:
    """Say at once what is missing, before anything is run; nothing is imported."""
    _, _, packages = PEERS[name]
    for package in packages:
        if find_spec(package) is None:
            raise MissingExtraError(
                f"The peer '{name}' needs the package '{package}'.", "Install it: pip install 'mlcd[peers]'"
            )


def load_peer(name: str) -> Callable[..., Searcher]:
    """The peer's adapter; its library is imported only now."""
    check_installed(name)
    module, kind, _ = PEERS[name]
    adapter: Callable[..., Searcher] = getattr(import_module(module), kind)
    return adapter
