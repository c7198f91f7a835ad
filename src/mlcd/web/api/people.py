"""Accounts, teams and the audit log, for admins."""

from __future__ import annotations

import time
from typing import Annotated, Any

from fastapi import APIRouter, Path
from pydantic import BaseModel, Field
from starlette.responses import Response

from mlcd.core.accounts import Account, Allowance, Entry, Role, Team
from mlcd.engine.lists import read_cursor
from mlcd.web.api.common import Cursor, Limit, gives, list_of, page_of
from mlcd.web.auth import Admin, SiteOf
from mlcd.web.idempotency import Idempotent
from mlcd.web.passwords import hash_password
from mlcd.web.serialize import answer
from mlcd.web.sessions import TEAM, account_name
from mlcd.web.submission import Body

router = APIRouter(tags=["people"])

Name = Annotated[str, Path(max_length=64)]
TeamName = Annotated[str, Field(min_length=1, max_length=64)]
Budget = Annotated[float | None, Field(ge=0, le=1e9, description="US dollars a month; null: no limit.")]


class NewAccount(Body):
    """A new account; by default a user."""

    name: str = Field(max_length=64)
    password: str = Field("", max_length=1000, description="Empty: by single sign-on only.")
    role: Role = Role.USER
    team: TeamName = TEAM
    budget_usd: Budget = None


class AccountChanges(Body):
    """What changes; what is left out stays."""

    role: Role | None = None
    team: TeamName | None = None
    budget_usd: Budget = None
    disabled: bool | None = None
    password: str | None = Field(None, max_length=1000)


class TeamBudget(Body):
    """What a team may spend."""

    budget_usd: Budget = None


class OneAccount(BaseModel):
    """An account and what is left of its budgets this month."""

    account: Account
    allowances: list[Allowance]


@router.get("/accounts", responses=gives(page_of(Account)))
def accounts(site: SiteOf, _actor: Admin, cursor: Cursor = None, limit: Limit = 100) -> Response:
    """All accounts by name."""
    found = site.accounts.page(cursor or "", limit)
    return answer({"items": found, "next": found[-1].name if len(found) == limit else None})


@router.post("/accounts", status_code=201, responses=gives(Account, 201))
def add_account(sent: NewAccount, site: SiteOf, actor: Admin, idempotent: Idempotent) -> Response:
    """Create an account."""

    def act(_reserved: str) -> Response:
        kept = hash_password(sent.password) if sent.password else ""
        account = Account(account_name(sent.name), sent.role, sent.team, time.time(), sent.budget_usd)
        site.accounts.add(account, kept)
        site.note(actor.name, "account made", account.name, f"role {account.role}, team {account.team}")
        return answer(site.accounts.get(account.name), 201)

    return idempotent.answer(act)


@router.get("/accounts/{name}", responses=gives(OneAccount))
def account(name: Name, site: SiteOf, _actor: Admin) -> Response:
    """One account, and what is left of its budgets this month."""
    found = site.accounts.get(name)
    return answer({"account": found, "allowances": site.accounts.allowances(name)})


@router.patch("/accounts/{name}", responses=gives(Account))
def change_account(name: Name, sent: AccountChanges, site: SiteOf, actor: Admin) -> Response:
    """Change an account's role, team, monthly budget or password, or disable it."""
    said: dict[str, Any] = {key: getattr(sent, key) for key in sent.model_fields_set}
    changes = {key: value for key, value in said.items() if value is not None or key == "budget_usd"}
    if "role" in changes:
        changes["role"] = changes["role"].value
    if "password" in changes:
        changes["password"] = hash_password(changes["password"])
    store = site.accounts
    changed = store.change(name, **changes) if changes else store.get(name)
    shown = ", ".join(key if key == "password" else f"{key} {changes[key]}" for key in sorted(changes))
    site.note(actor.name, "account changed", name, shown)
    return answer(changed)


@router.get("/teams", responses=gives(list_of(Team)))
def teams(site: SiteOf, _actor: Admin) -> Response:
    """All teams."""
    return answer({"items": site.accounts.teams()})


@router.put("/teams/{name}", responses=gives(Team))
def put_team(name: Name, sent: TeamBudget, site: SiteOf, actor: Admin) -> Response:
    """Create a team, or change its monthly budget."""
    team = Team(name, sent.budget_usd)
    site.accounts.put_team(team)
    site.note(actor.name, "team budget", name, f"{sent.budget_usd}")
    return answer(team)


@router.get("/audit", responses=gives(page_of(Entry)))
def audit(site: SiteOf, _actor: Admin, cursor: Cursor = None, limit: Limit = 100) -> Response:
    """Who did what, newest first."""
    found = site.service.audit(read_cursor(cursor), limit)
    return answer({"items": found, "next": str(found[-1].number) if len(found) == limit else None})
