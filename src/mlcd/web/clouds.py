"""Which clouds someone may use on this server, with which options, and whose programs may run on the server itself.

A program that runs here runs as the server's own user: it can read the server's key, its database and its environment.
So with accounts only admins run programs on clouds that are this computer, unless the server's settings name the cloud.
Where a cloud is, and with which files and credentials it is reached, is said by the server's settings and by admins.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from mlcd import registry
from mlcd.clouds.accounts import plugin_of
from mlcd.core.accounts import Role
from mlcd.core.records import JobRecord
from mlcd.errors import NotAllowedError, NotFoundError, UserError
from mlcd.settings import Settings
from mlcd.web.auth import Actor
from mlcd.web.settings import ServeSettings, is_loopback
from mlcd.web.site import Site

_OURS = frozenset({"state"})  # options of a cloud that name places of this computer
_WITHOUT_PLACES = frozenset({"replay"})  # clouds whose options name nothing but an upload
_AWS = "aws"
WARNING = "can read the server's key, its database and its environment"


def clouds_of(site: Site, actor: Actor) -> list[str]:
    """Where jobs of theirs may run."""
    names = list(site.serve.clouds) or registry.names("clouds")
    return [name for name in names if may_use(site, actor, name)]


def may_use(site: Site, actor: Actor, name: str) -> bool:
    """Whether jobs of theirs may run on this cloud."""
    listed = not site.serve.clouds or name in site.serve.clouds
    return listed and (actor.is_admin or not is_barred(site.client.settings, site.serve, name))


def refuse_cloud(site: Site, actor: Actor, name: str) -> None:
    """Refuse a cloud that they may not use here, also as a part of several."""
    for part in (part.strip() for part in name.split("+")):
        if site.serve.clouds and part not in site.serve.clouds:
            listed = ", ".join(site.serve.clouds)
            raise UserError(f"Jobs may not run on '{part[:80]}' here.", f"Take one of: {listed}.")
        if not may_use(site, actor, part):
            others = ", ".join(clouds_of(site, actor))
            raise NotAllowedError(
                f"Only admins may run programs on the cloud '{part}': it is this server itself.",
                f"Take one of: {others}. An admin allows it to everyone with `mlcd serve --cloud {part}`.",
            )


def refuse_model(site: Site, owner: str) -> None:
    """Refuse to run a model here whose owner may not run programs here: a model is a program."""
    if not site.serve.accounts or "local" in site.serve.clouds or _is_admin(site, owner):
        return
    raise NotAllowedError(
        "Models of users are not run on this server itself.",
        "Download it and run it elsewhere. An admin allows it to everyone with `mlcd serve --cloud local`.",
    )


def refuse_options(actor: Actor, cloud: str, given: Mapping[str, str]) -> None:
    """Refuse options that say where a cloud is, or what of this computer it reads; admins may say where it is."""
    for name in sorted(_OURS & given.keys()):
        raise UserError(f"Option '{name}' is the server's own.", "Leave it out.")
    if given and cloud not in _WITHOUT_PLACES and not actor.is_admin:
        raise NotAllowedError(
            f"Option '{min(given)[:80]}' of the cloud '{cloud[:80]}' is for admins.",
            "Leave it out: the server's settings say where its clouds are.",
        )


def refuse_job(site: Site, actor: Actor, record: JobRecord) -> None:
    """Refuse to go on with a job, perhaps of an older server, on a cloud or with options that they may not use now."""
    refuse_cloud(site, actor, record.cloud)
    given = {name: value for name, value in record.cloud_options.items() if name not in _OURS}
    refuse_options(actor, record.cloud, given)


def may_go_on(site: Site, record: JobRecord) -> bool:
    """Whether the job's owner may use its cloud and its options now."""
    if not site.serve.accounts or _is_admin(site, record.owner):
        return True
    try:
        refuse_job(site, Actor(record.owner, Role.USER), record)
    except UserError:
        return False
    return True


def is_barred(settings: Settings, serve: ServeSettings, name: str) -> bool:
    """Whether users other than admins may not use this cloud because it is this computer."""
    return serve.accounts and runs_here(settings, name) and name not in serve.clouds


def runs_here(settings: Settings, name: str) -> bool:
    """Whether programs of this cloud run on this computer."""
    if name not in registry.loadable("clouds"):
        return False
    address = plugin_of(name).address
    return address is not None and _is_here(address(settings))


def _is_here(address: str) -> bool:
    host = address.rpartition("://")[2].partition("/")[0]
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    return name in ("", "auto", "local") or (name != _AWS and (is_loopback(name) or _is_ours(name)))


def _is_ours(host: str) -> bool:
    """Whether this computer could listen there: its own address in the network is this computer, too."""
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except OSError:  # a name that nobody knows is nobody's
        return False
    return any(_can_listen(family, place) for family, _, _, _, place in found)


def _can_listen(family: int, place: Any) -> bool:
    with suppress(OSError), socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.bind(place)
        return True
    return False


def _is_admin(site: Site, owner: str) -> bool:
    if not owner:
        return True  # of a time when there were no accounts
    try:
        return site.accounts.get(owner).role is Role.ADMIN
    except NotFoundError:
        return False
