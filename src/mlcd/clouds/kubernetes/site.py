"""What a cluster asks of its pods and the settings say: who they are, where they may run, what they mount. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from mlcd.clouds.kubernetes.settings import KubernetesSettings
from mlcd.errors import UserError

_RULE = re.compile(r"(!?)([A-Za-z0-9][-A-Za-z0-9_./]*)(?:=([-A-Za-z0-9_.|]+))?")
_CLAIM = re.compile(r"([a-z0-9][-a-z0-9.]*)=(/\S+)")
_USER = re.compile(r"(\d+)(?::(\d+))?")


@dataclass(frozen=True)
class NodeRule:
    """One label that nodes must have, with one of some values or any; or must not have."""

    key: str
    values: tuple[str, ...] = ()
    absent: bool = False

    def allows(self, labels: Mapping[str, str]) -> bool:
        """Whether a node with these labels keeps the rule."""
        if self.absent:
            return self.key not in labels
        return self.key in labels and (not self.values or labels[self.key] in self.values)

    def manifest(self) -> dict[str, Any]:
        """As the affinity of a pod says it."""
        if self.values:
            return {"key": self.key, "operator": "In", "values": list(self.values)}
        return {"key": self.key, "operator": "DoesNotExist" if self.absent else "Exists"}


@dataclass(frozen=True)
class Site:
    """All of it; nothing is asked for by default."""

    node_rules: tuple[NodeRule, ...] = ()
    service_account: str = ""
    pull_secrets: tuple[str, ...] = ()
    priority_class: str = ""
    user: tuple[int, int] | None = None  # and its group
    claims: Mapping[str, str] = field(default_factory=dict)  # of a volume → where it is mounted
    disk_gib: float = 0.0  # 0: no limit
    shm_gib: float = 0.0  # 0: no limit
    forget_seconds: int = KubernetesSettings.forget_seconds

    def pod(self) -> dict[str, Any]:
        """What it adds to a pod, volumes and affinity aside."""
        named = {
            "serviceAccountName": self.service_account,
            "priorityClassName": self.priority_class,
            "imagePullSecrets": [{"name": name} for name in self.pull_secrets],
            "securityContext": self._pod_security(),
        }
        return {name: value for name, value in named.items() if value}

    def container(self) -> dict[str, Any]:
        """What it adds to a container, mounts aside: with a user of its own it keeps Kubernetes' `restricted` standard."""
        held = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
        return {"securityContext": held} if self.user is not None else {}

    def affinity(self) -> dict[str, Any]:
        """Where pods may run; empty: anywhere."""
        if not self.node_rules:
            return {}
        terms = [{"matchExpressions": [rule.manifest() for rule in self.node_rules]}]
        return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}

    def volumes(self) -> list[dict[str, Any]]:
        """mlcd's own, shared memory, and the claims."""
        own = {"name": "mlcd", "emptyDir": _limited({}, self.disk_gib)}
        shm = {"name": "shm", "emptyDir": _limited({"medium": "Memory"}, self.shm_gib)}
        claims = enumerate(self.claims)
        return [own, shm, *({"name": f"claim-{n}", "persistentVolumeClaim": {"claimName": each}} for n, each in claims)]

    def mounts(self) -> list[dict[str, Any]]:
        """Of the claims."""
        return [{"name": f"claim-{number}", "mountPath": path} for number, path in enumerate(self.claims.values())]

    def allows(self, labels: Mapping[str, str]) -> bool:
        """Whether pods may run on a node with these labels."""
        return all(rule.allows(labels) for rule in self.node_rules)

    def _pod_security(self) -> dict[str, Any]:
        if self.user is None:
            return {}
        user, group = self.user
        ids = {"runAsUser": user, "runAsGroup": group, "fsGroup": group, "runAsNonRoot": user != 0}
        return {**ids, "seccompProfile": {"type": "RuntimeDefault"}}


ANY = Site()


def read_site(options: Mapping[str, Any]) -> Site:
    """From the settings; a task that was launched by an older mlcd has fewer of them."""
    options = {**asdict(KubernetesSettings()), **options}
    return Site(
        node_rules=tuple(_node_rule(word) for word in _words(options, "nodes")),
        service_account=str(options["service_account"]),
        pull_secrets=tuple(_words(options, "pull_secrets")),
        priority_class=str(options["priority_class"]),
        user=_user(str(options["run_as"])),
        claims=dict(_claim(word) for word in _words(options, "claims")),
        disk_gib=float(options["disk_gib"]),
        shm_gib=float(options["shm_gib"]),
        forget_seconds=int(options["forget_seconds"]),
    )


def _node_rule(word: str) -> NodeRule:
    found = _RULE.fullmatch(word)
    if found is None or (found[1] and found[3]):
        raise UserError(
            f"kubernetes.nodes: '{word}' is no rule for nodes.",
            "Write label, label=value, label=one|another or !label.",
        )
    return NodeRule(found[2], tuple(found[3].split("|")) if found[3] else (), absent=bool(found[1]))


def _claim(word: str) -> tuple[str, str]:
    found = _CLAIM.fullmatch(word)
    if found is None:
        raise UserError(f"kubernetes.claims: '{word}' is no claim.", "Write claim=/where/it/is/mounted.")
    return found[1], found[2]


def _user(text: str) -> tuple[int, int] | None:
    found = _USER.fullmatch(text)
    if text and found is None:
        raise UserError(
            f"kubernetes.run_as: '{text}' is no user.", "Write its number, or user:group, such as 1000:1000."
        )
    return (int(found[1]), int(found[2] or found[1])) if found else None


def _words(options: Mapping[str, Any], name: str) -> Sequence[str]:
    return [word.strip() for word in str(options[name]).split(",") if word.strip()]


def _limited(volume: dict[str, str], gib: float) -> dict[str, str]:
    return {**volume, "sizeLimit": f"{int(gib * 1024)}Mi"} if gib else volume
