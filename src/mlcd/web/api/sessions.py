"""Signing in and out, and the first account."""

from __future__ import annotations

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from mlcd.core.accounts import Account, Role
from mlcd.errors import NotAllowedError
from mlcd.web.api.common import address_of, gives
from mlcd.web.auth import COOKIE, SignedIn, SiteOf, refuse_other_sites
from mlcd.web.serialize import answer, encode
from mlcd.web.sessions import first_account, open_session, sign_in
from mlcd.web.site import Site
from mlcd.web.submission import Body

router = APIRouter(tags=["accounts"])


class Credentials(Body):
    """Name and password."""

    name: str = Field(max_length=200)
    password: str = Field(max_length=1000)


class FirstAccount(Credentials):
    """The first account, by the token that the server printed."""

    setup_token: str = Field(max_length=200)


class Session(BaseModel):
    """Who is signed in."""

    name: str
    role: Role
    team: str
    csrf: str


@router.post("/session", responses=gives(Session))
def log_in(sent: Credentials, site: SiteOf, request: Request) -> Response:
    """Sign in with name and password; the session is a cookie."""
    _refuse_without_accounts(site, request)
    return _session(site, sign_in(site, sent.name, sent.password, address_of(request)))


@router.post("/setup", responses=gives(Session))
def set_up(sent: FirstAccount, site: SiteOf, request: Request) -> Response:
    """Create the first account, an admin."""
    _refuse_without_accounts(site, request)
    made = first_account(site, sent.name, sent.password, sent.setup_token, address_of(request))
    return _session(site, made)


@router.get("/session", responses=gives(Session))
def session(actor: SignedIn) -> Response:
    """Who is signed in."""
    return answer({"name": actor.name, "role": actor.role.value, "team": actor.team, "csrf": actor.csrf})


@router.delete("/session", status_code=204)
def log_out(site: SiteOf, actor: SignedIn) -> Response:
    """Sign out: the session ends."""
    if actor.csrf:
        site.accounts.revoke(actor.token_id, actor.name)
        site.note(actor.name, "sign-out", "")
    response = Response(status_code=204)
    response.delete_cookie(COOKIE)
    return response


def _session(site: Site, account: Account) -> Response:
    response = Response(media_type="application/json")
    csrf = open_session(site, account, response)
    data = {"name": account.name, "role": account.role.value, "team": account.team, "csrf": csrf}
    response.body = encode(data)
    response.headers["content-length"] = str(len(response.body))
    return response


def _refuse_without_accounts(site: Site, request: Request) -> None:
    """And what another site's page sends: it must not sign anyone in as somebody else."""
    if not site.serve.accounts:
        raise NotAllowedError("This server has no accounts.", "Start it with --accounts.")
    refuse_other_sites(request)
