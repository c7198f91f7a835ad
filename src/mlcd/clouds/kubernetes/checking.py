"""`mlcd check kubernetes`: the cluster, every right that mlcd needs, the pools, the prices; nothing is made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict

from mlcd.clouds.kubernetes.errors import RIGHTS, in_words
from mlcd.clouds.kubernetes.kubectl import Kubectl
from mlcd.clouds.kubernetes.pools import read_pools, read_prices
from mlcd.clouds.kubernetes.settings import KubernetesSettings
from mlcd.clouds.kubernetes.site import read_site
from mlcd.clouds.kubernetes.tolerations import read_tolerations
from mlcd.core.view import Finding
from mlcd.errors import MlcdError, UserError

# Verb, resource, subresource.
NEEDED = (
    ("list", "nodes", ""),
    *((verb, "jobs.batch", "") for verb in ("create", "list", "delete")),
    *((verb, "pods", "") for verb in ("get", "list")),
    *((verb, "pods", "exec") for verb in ("get", "create")),
)
USEFUL = ("list", "events", "")  # without it nobody hears why a Job makes no pods


def check(settings: KubernetesSettings) -> Iterator[Finding]:
    """All findings; what rests on one that failed is not tried."""
    kubectl = Kubectl.of(asdict(settings))
    rights = _tried("rights", lambda: _rights(kubectl))
    yield rights
    if not rights.ok:
        return
    yield _tried("events", lambda: _events(kubectl))
    yield _tried("pools", lambda: _pools(kubectl, settings))
    yield _tried("prices", lambda: f"of {len(read_prices(settings.prices))} pools; others by the settings")


def may(kubectl: Kubectl, verb: str, resource: str, subresource: str) -> bool:
    """Whether the user has a right, by the cluster's word."""
    doing = f"say whether you may {verb} {resource}"
    more = [f"--subresource={subresource}"] if subresource else []
    done = kubectl.in_time(doing, "auth", "can-i", verb, resource, *more)
    said = done.stdout.decode(errors="replace").strip()
    if said.split()[:1] not in (["yes"], ["no"]):
        raise in_words(doing, done.stderr.decode(errors="replace"))
    return said.startswith("yes")


def _tried(what: str, look: Callable[[], str]) -> Finding:
    try:
        return Finding(what, True, look())
    except MlcdError as error:
        return Finding(what, False, error.message, error.hint)


def _rights(kubectl: Kubectl) -> str:
    missing = [_words(*right) for right in NEEDED if not may(kubectl, *right)]
    if missing:
        raise UserError(f"You may not {', '.join(missing)} in the namespace {kubectl.namespace}.", RIGHTS)
    return f"all {len(NEEDED)} in the namespace {kubectl.namespace}"


def _events(kubectl: Kubectl) -> str:
    if may(kubectl, *USEFUL):
        return "why pods are not made can be told"
    return "you may not list events: why pods are not made cannot be told, and they are waited for"


def _pools(kubectl: Kubectl, settings: KubernetesSettings) -> str:
    tolerations, site = read_tolerations(settings.tolerations), read_site(asdict(settings))
    pools = read_pools(kubectl.items("list nodes", "nodes"), settings.pool_label, tolerations, site)
    if not pools:
        raise UserError("No node takes pods of yours.", "Look at kubernetes.tolerations, .nodes and .pool_label.")
    return "; ".join(f"{pool.label[1]}: {pool.nodes} nodes of {pool.cpus:g} CPUs" for pool in pools)


def _words(verb: str, resource: str, subresource: str) -> str:
    return f"{verb} {resource.removesuffix('.batch')}{'/' if subresource else ''}{subresource}"
