"""Signing in, the first account, and the team."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import RedirectResponse, Response

from mlcd.core.accounts import Role
from mlcd.engine.lists import read_cursor
from mlcd.web.api.common import Cursor
from mlcd.web.auth import SignedIn, SiteOf, find_actor
from mlcd.web.pages.rendering import page
from mlcd.web.sessions import inside

router = APIRouter()

MOST = 200
MOST_ENTRIES = 50  # of the audit log


@router.get("/login")
def login(request: Request, site: SiteOf, to: Annotated[str, Query(alias="next", max_length=500)] = "") -> Response:
    """Name and password."""
    if find_actor(request, site) is not None:
        return RedirectResponse("/jobs", 303)
    if site.accounts.count() == 0:
        return RedirectResponse("/setup", 303)
    return page(request, None, "login.html", to=inside(to), oidc=site.serve.oidc)


@router.get("/setup")
def setup(request: Request, site: SiteOf) -> Response:
    """The first account, by the token that the server printed."""
    if not site.serve.accounts or site.accounts.count():
        return RedirectResponse("/jobs", 303)
    return page(request, None, "setup.html")


@router.get("/team")
def team(request: Request, site: SiteOf, actor: SignedIn, cursor: Cursor = None, log: Cursor = None) -> Response:
    """One's own account; for admins everyone's, the teams and the audit log."""
    accounts = site.accounts
    named = site.serve.accounts
    admin = named and actor.is_admin
    people = accounts.page(cursor or "", MOST) if admin else []
    audit = site.service.audit(read_cursor(log), MOST_ENTRIES) if admin else []
    return page(
        request,
        actor,
        "team.html",
        account=accounts.get(actor.name) if named else None,
        allowances=accounts.allowances(actor.name) if named else (),
        tokens=accounts.tokens(actor.name) if named else [],
        secrets=site.service.secrets(actor.name),
        people=people,
        teams=accounts.teams() if admin else [],
        audit=audit,
        log=log,
        older=f"/team?log={audit[-1].number}#audit" if len(audit) == MOST_ENTRIES else "",
        roles=list(Role),
        more=people[-1].name if len(people) == MOST else "",
    )
