"""Signing in, the first account, and the team."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import RedirectResponse, Response

from mlcd.core.accounts import Role
from mlcd.engine.lists import read_cursor
from mlcd.web.api.common import Cursor
from mlcd.web.pages.rendering import page
from mlcd.web.sessions import inside
from mlcd.web.who import Me, SiteOf, find_actor

router = APIRouter()

MOST = 200
MOST_ENTRIES = 50  # of the audit log


@router.get("/login")
def login(
    request: Request, site: SiteOf, to: Annotated[str, Query(alias="next", max_length=500)] = ""
) -> Response:
    """Name and password."""
    if find_actor(request, site) is not None:
        return RedirectResponse("/jobs", 303)
    if site.client.store.accounts.count() == 0:
        return RedirectResponse("/setup", 303)
    return page(request, None, "login.html", to=inside(to), oidc=site.serve.oidc)


@router.get("/setup")
def setup(request: Request, site: SiteOf) -> Response:
    """The first account, by the token that the server printed."""
    if not site.serve.accounts or site.client.store.accounts.count():
        return RedirectResponse("/jobs", 303)
    return page(request, None, "setup.html")


@router.get("/team")
def team(request: Request, site: SiteOf, who: Me, cursor: Cursor = None, log: Cursor = None) -> Response:
    """One's own account; for admins everyone's, the teams and the audit log."""
    store = site.client.store
    named = site.serve.accounts
    boss = named and who.is_admin
    people = store.accounts.page(cursor or "", MOST) if boss else []
    audit = store.service.audit(read_cursor(log), MOST_ENTRIES) if boss else []
    return page(
        request,
        who,
        "team.html",
        account=store.accounts.get(who.name) if named else None,
        allowances=store.accounts.allowances(who.name) if named else (),
        tokens=store.accounts.tokens(who.name) if named else [],
        secrets=store.service.secrets(who.name),
        people=people,
        teams=store.accounts.teams() if boss else [],
        audit=audit,
        log=log,
        older=f"/team?log={audit[-1].number}#audit" if len(audit) == MOST_ENTRIES else "",
        roles=list(Role),
        more=people[-1].name if len(people) == MOST else "",
    )
