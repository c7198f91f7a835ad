"""mlcd: find the right cloud machines for a training job, train there, and hand back the model with a true bill."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mlcd.api import Client
    from mlcd.remote import RemoteClient
    from mlcd.worker import (
        ElasticSampler,
        accumulation_steps,
        batch_size,
        checkpoint,
        checkpoint_due,
        last_checkpoint,
        local_batch_size,
        lr_scale,
        report,
        steps,
        stopping,
    )

__version__ = "0.2.0.dev0"
__all__ = [
    "Client",
    "ElasticSampler",
    "RemoteClient",
    "__version__",
    "accumulation_steps",
    "batch_size",
    "checkpoint",
    "checkpoint_due",
    "last_checkpoint",
    "local_batch_size",
    "lr_scale",
    "report",
    "steps",
    "stopping",
]

_WORKER = set(__all__) - {"Client", "RemoteClient", "__version__"}


def __getattr__(name: str) -> Any:
    """Import on first use: a training program that says `import mlcd` loads the worker and nothing else."""
    if name in _WORKER:
        from mlcd import worker

        return getattr(worker, name)
    if name == "Client":
        from mlcd.api import Client

        return Client
    if name == "RemoteClient":
        from mlcd.remote import RemoteClient

        return RemoteClient
    raise AttributeError(f"module 'mlcd' has no attribute '{name}'")
