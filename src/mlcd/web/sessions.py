"""Signing in and out. A session is a token of its own, in a signed cookie that scripts cannot read."""

from __future__ import annotations

import re
import time

from starlette.responses import Response

from mlcd.core.accounts import Account, Role, Token
from mlcd.errors import NotAllowedError, UserError
from mlcd.web.auth import COOKIE, csrf_of, signer
from mlcd.web.passwords import digest, fits, hash_password, new_token
from mlcd.web.rate_limit import network_of
from mlcd.web.site import Site

TEAM = "team"  # where an account belongs that nobody put elsewhere
_NAME = re.compile(r"[a-z0-9][a-z0-9._@+-]{0,63}")


def account_name(text: str) -> str:
    """A name as accounts have it: small letters, digits and a few signs."""
    name = text.strip().lower()
    if not _NAME.fullmatch(name):
        raise UserError(
            f"'{text[:64]}' cannot be the name of an account.",
            "Use letters, digits and . _ @ + -, at most 64 of them.",
        )
    return name


def sign_in(site: Site, name: str, password: str, address: str) -> Account:
    """The account of that name and password; the error does not say which of the two was wrong."""
    name = name.strip().lower()[:64]
    place = network_of(address)
    site.logins.take(f"from {place}")
    site.guesses.attempt(f"{name} from {place}")  # by place: or whoever knows a name could lock its owner out
    accounts = site.accounts
    if not fits(password, accounts.password(name)):
        site.note(name, "sign-in refused", "", address=address)
        raise NotAllowedError("Name or password is wrong.")
    account = accounts.get(name)
    if account.disabled:
        raise NotAllowedError("Name or password is wrong.")
    site.guesses.right(f"{name} from {place}")
    site.note(name, "sign-in", "", address=address)
    return account


def first_account(site: Site, name: str, password: str, setup_token: str, address: str) -> Account:
    """The first account, an admin: for whoever holds the setup token that the server printed when it started."""
    site.logins.take(f"from {network_of(address)}")
    account = Account(account_name(name), Role.ADMIN, TEAM, time.time(), has_password=True)
    made = site.accounts.add_first(account, hash_password(password), digest(setup_token))
    if not made:
        raise NotAllowedError(
            "The setup token is wrong, used already, or replaced by a newer one.",
            "Take the one that `mlcd serve` printed when it last started.",
        )
    site.note(account.name, "setup", account.name, address=address)
    return account


def open_session(site: Site, account: Account, response: Response) -> str:
    """Give the browser its cookie; returns the CSRF token of the session."""
    token_id, text, kept = new_token()
    seconds = site.serve.session_days * 86400.0
    now = time.time()
    site.accounts.put_token(Token(token_id, account.name, "session", now, now + seconds, session=True), kept)
    response.set_cookie(
        COOKIE,
        signer(site).sign(text).decode(),
        max_age=int(seconds),
        httponly=True,
        secure=site.serve.secure,
        samesite="lax",
    )
    return csrf_of(site, token_id)


def inside(address: str) -> str:
    """A path of this site, whatever somebody put into a link."""
    plain = address.startswith("/") and not address.startswith("//") and "\\" not in address
    return address if plain and not any(ord(letter) < 32 for letter in address) else "/jobs"
