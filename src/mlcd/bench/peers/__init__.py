"""Other libraries under the same protocol, each in its own file; needs the extra `mlcd[bench]`."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from mlcd.errors import MissingExtraError
from mlcd.search.base import Searcher

# name → module, class, and the package that the module cannot do without
PEERS: dict[str, tuple[str, str, str]] = {
    "optuna-tpe": ("mlcd.bench.peers.optuna_tpe", "OptunaTPE", "optuna"),
    "optuna-gp": ("mlcd.bench.peers.optuna_gp", "OptunaGP", "optuna"),
    "ax": ("mlcd.bench.peers.ax", "Ax", "ax-platform"),
    "smac": ("mlcd.bench.peers.smac", "Smac", "smac"),
    "botorch-eipc": ("mlcd.bench.peers.botorch_eipc", "BoTorchEIPerCost", "botorch"),
}


def load_peer(name: str) -> Callable[..., Searcher]:
    """The peer's adapter; its library is imported only now."""
    module, kind, package = PEERS[name]
    try:
        adapter: Callable[..., Searcher] = getattr(import_module(module), kind)
    except ImportError as error:
        raise MissingExtraError(
            f"The peer '{name}' needs the package '{package}': {error}.",
            "Install it: pip install 'mlcd[bench]'",
        ) from error
    return adapter
