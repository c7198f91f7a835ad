"""Who asks, and what they may do: dependencies of every handler.

    SignedIn  anyone who is signed in; on a server without accounts, whoever reaches it
    Editor    one who may change things: users and admins
    Admin     an admin

State-changing requests must not be another site's doing: a session needs its CSRF token, and without accounts
the request must come from our own page or from no page at all. A bearer token is proof enough.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request
from itsdangerous import BadSignature, TimestampSigner

from mlcd.core.accounts import Role
from mlcd.errors import NotAllowedError
from mlcd.web.faults import SignInNeededError
from mlcd.web.headers import same_origin
from mlcd.web.passwords import digest, same, split_token
from mlcd.web.site import Site

COOKIE = "mlcd_session"
CSRF_HEADER = "x-csrf-token"
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True)
class Actor:
    """Someone who asks."""

    name: str  # of the account; empty: this server has none
    role: Role
    team: str = ""
    token_id: str = ""  # what they came in with
    csrf: str = ""  # what their pages must send along; empty: nothing

    @property
    def is_admin(self) -> bool:
        """Whether everything is theirs to see."""
        return self.role is Role.ADMIN


def site_of(request: Request) -> Site:
    """The server that is asked."""
    site: Site = request.app.state.site
    return site


SiteOf = Annotated[Site, Depends(site_of)]


def signed_in(request: Request, site: SiteOf) -> Actor:
    """Who asks; SignInNeededError if nobody is signed in."""
    actor = find_actor(request, site)
    if actor is None:
        raise SignInNeededError("Please sign in.", "Send an API token: `mlcd login URL` keeps one.")
    if request.method not in SAFE:
        _refuse_forgery(request, actor)
        site.posts.take(actor.name)
    return actor


def may_change(actor: Annotated[Actor, Depends(signed_in)]) -> Actor:
    """One who may change things."""
    if actor.role is Role.VIEWER:
        raise NotAllowedError("A viewer may look, but not change anything.", "Ask an admin for the role 'user'.")
    return actor


def admin(actor: Annotated[Actor, Depends(signed_in)]) -> Actor:
    """An admin."""
    if not actor.is_admin:
        raise NotAllowedError("This is for admins.")
    return actor


SignedIn = Annotated[Actor, Depends(signed_in)]
Editor = Annotated[Actor, Depends(may_change)]
Admin = Annotated[Actor, Depends(admin)]


def find_actor(request: Request, site: Site) -> Actor | None:
    """Who asks, by bearer token or session; None: nobody is signed in."""
    if not site.serve.accounts:
        return Actor("", Role.ADMIN)
    kind, _, text = request.headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer":
        return _by_token(site, text.strip(), session=False)
    cookie = request.cookies.get(COOKIE)
    return _by_cookie(site, cookie) if cookie else None


def owners_of(site: Site, actor: Actor) -> frozenset[str] | None:
    """Whose jobs this actor may see; None: everyone's."""
    if actor.is_admin:
        return None
    if actor.role is Role.VIEWER:
        return site.accounts.members(actor.team)
    return frozenset({actor.name})


def signer(site: Site) -> TimestampSigner:
    """Signs session cookies."""
    return TimestampSigner(site.vault.signing_key, salt="mlcd.session")


def csrf_of(site: Site, token_id: str) -> str:
    """What the pages of a session send along."""
    return hmac.new(site.vault.signing_key, f"csrf:{token_id}".encode(), hashlib.sha256).hexdigest()


def _by_cookie(site: Site, cookie: str) -> Actor | None:
    try:
        text = signer(site).unsign(cookie, max_age=int(site.serve.session_days * 86400)).decode()
    except (BadSignature, UnicodeDecodeError):
        return None
    return _by_token(site, text, session=True)


def _by_token(site: Site, text: str, session: bool) -> Actor | None:
    parts = split_token(text)
    found = site.accounts.token(parts[0], time.time()) if parts else None
    if parts is None or found is None:
        return None
    token, kept, account = found
    if token.session is not session or not same(kept, digest(parts[1])):
        return None
    csrf = csrf_of(site, token.id) if session else ""
    return Actor(account.name, account.role, account.team, token.id, csrf)


def _refuse_forgery(request: Request, actor: Actor) -> None:
    bearer = bool(actor.token_id) and not actor.csrf
    if bearer:
        return
    if actor.csrf and not same(request.headers.get(CSRF_HEADER, ""), actor.csrf):
        raise NotAllowedError(
            "The request does not carry the session's CSRF token.", "Load the page again, then repeat it."
        )
    refuse_other_sites(request)


def refuse_other_sites(request: Request) -> None:
    """Refuse what another site's page sends."""
    if not same_origin(request.headers, [request.headers.get("host", ""), _public_host(request)]):
        raise NotAllowedError("The request comes from another site's page.")


def _public_host(request: Request) -> str:
    return site_of(request).serve.public_url.partition("://")[2].partition("/")[0]
