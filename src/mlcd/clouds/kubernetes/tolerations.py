"""Which taints of nodes our pods tolerate. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlcd.errors import UserError

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_KEEPS_PODS_AWAY = ("NoSchedule", "NoExecute")


@dataclass(frozen=True)
class Toleration:
    """One kind of taint that is no obstacle."""

    key: str
    value: str | None = None  # None: any
    effect: str = ""  # empty: every

    def tolerates(self, taint: Mapping[str, Any]) -> bool:
        """Whether the taint is of this kind, by the rules of Kubernetes."""
        return (
            self.key == taint["key"]
            and self.value in (None, taint.get("value", ""))
            and self.effect in ("", taint["effect"])
        )

    def manifest(self) -> dict[str, str]:
        """As a pod says it."""
        value = {"operator": "Exists"} if self.value is None else {"operator": "Equal", "value": self.value}
        return {"key": self.key, **value, **({"effect": self.effect} if self.effect else {})}


# Where providers taint their GPU nodes, so that only pods that ask for GPUs land there.
GPU_NODES = tuple(Toleration(key, effect="NoSchedule") for key in ("nvidia.com/gpu", "amd.com/gpu"))


def read_tolerations(text: str) -> tuple[Toleration, ...]:
    """What the settings say, 'dedicated=training:NoSchedule, spot', and the taints of GPU nodes."""
    named = [_read(part.strip()) for part in text.split(",") if part.strip()]
    return (*GPU_NODES, *named)


def keeps_away(taints: Iterable[Mapping[str, Any]], tolerations: Sequence[Toleration]) -> bool:
    """Whether a node with these taints takes none of our pods."""
    barring = [taint for taint in taints if taint["effect"] in _KEEPS_PODS_AWAY]
    return any(not any(each.tolerates(taint) for each in tolerations) for taint in barring)


def _read(text: str) -> Toleration:
    name, _, effect = text.partition(":")
    key, equals, value = name.partition("=")
    if not key or (effect and effect not in _EFFECTS):
        raise UserError(
            f"kubernetes.tolerations: '{text}' is no toleration.",
            f"Write key, key=value or key=value:EFFECT, with one of the effects {', '.join(_EFFECTS)}.",
        )
    return Toleration(key, value if equals else None, effect)
