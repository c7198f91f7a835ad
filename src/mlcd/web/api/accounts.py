"""One's own account: budgets, password and API tokens."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import BaseModel, Field
from starlette.responses import Response

from mlcd.core.accounts import Account, Allowance, Token
from mlcd.errors import NotAllowedError, UserError
from mlcd.web.api.common import gives, list_of
from mlcd.web.auth import SignedIn, SiteOf
from mlcd.web.idempotency import Idempotent
from mlcd.web.passwords import fits, hash_password, new_token
from mlcd.web.serialize import answer, plain
from mlcd.web.submission import Body

router = APIRouter(tags=["accounts"])

TokenId = Annotated[str, Path(max_length=64)]


class MyAccount(BaseModel):
    """Your account and what is left of its budgets this month."""

    account: Account | None
    allowances: list[Allowance]


class NewToken(Body):
    """What a token is for, and how long."""

    label: str = Field(min_length=1, max_length=100)
    days: float | None = Field(None, gt=0, le=3650)


class CreatedToken(BaseModel):
    """A new token: its text is shown only now."""

    token: Token
    text: str


class NewPassword(Body):
    """The old password and the new one."""

    old: str = Field(max_length=1000)
    new: str = Field(max_length=1000)


@router.get("/me", responses=gives(MyAccount))
def me(site: SiteOf, actor: SignedIn) -> Response:
    """Your account, and what is left of its budgets this month."""
    if not actor.name:
        return answer({"account": None, "allowances": []})
    accounts = site.accounts
    return answer({"account": accounts.get(actor.name), "allowances": accounts.allowances(actor.name)})


@router.put("/me/password", status_code=204)
def change_password(sent: NewPassword, site: SiteOf, actor: SignedIn) -> Response:
    """Change your password; all sessions end."""
    _refuse_nobody(actor.name)
    site.guesses.attempt(f"password of {actor.name}")
    accounts = site.accounts
    if not fits(sent.old, accounts.password(actor.name)):
        raise NotAllowedError("The old password is wrong.")
    site.guesses.right(f"password of {actor.name}")
    accounts.change(actor.name, password=hash_password(sent.new))
    site.note(actor.name, "password", actor.name)
    return Response(status_code=204)


@router.get("/tokens", responses=gives(list_of(Token)))
def tokens(site: SiteOf, actor: SignedIn) -> Response:
    """Your API tokens."""
    return answer({"items": site.accounts.tokens(actor.name)})


@router.post("/tokens", status_code=201, responses=gives(CreatedToken, 201))
def make_token(sent: NewToken, site: SiteOf, actor: SignedIn, idempotent: Idempotent) -> Response:
    """Create an API token; its text is shown only now."""
    _refuse_nobody(actor.name)

    def act(reserved: str) -> Response:
        token_id, text, kept = new_token(reserved)
        now = time.time()
        ends = None if sent.days is None else now + sent.days * 86400.0
        token = Token(token_id, actor.name, sent.label, now, ends)
        site.accounts.put_token(token, kept)
        site.note(actor.name, "token made", token_id, sent.label)
        return answer({"token": plain(token), "text": text}, 201)

    return idempotent.answer(act, private=True)


@router.delete("/tokens/{token_id}", status_code=204)
def revoke_token(token_id: TokenId, site: SiteOf, actor: SignedIn) -> Response:
    """Revoke one of your API tokens."""
    site.accounts.revoke(token_id, actor.name)
    site.note(actor.name, "token revoked", token_id)
    return Response(status_code=204)


def _refuse_nobody(name: str) -> None:
    if not name:
        raise UserError("This server has no accounts.", "Start it with --accounts.")
