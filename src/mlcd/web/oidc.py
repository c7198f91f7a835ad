"""Single sign-on by OpenID Connect: discovery, authorization code with PKCE, a verified ID token.

Whoever the provider knows gets an account with the role 'user', never another one's: accounts are tied to
the provider's subject, and a name that is taken stays with who has it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import secrets
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

from itsdangerous import BadSignature, URLSafeTimedSerializer

from mlcd.core.accounts import Account, Role
from mlcd.errors import MissingExtraError, NotAllowedError, NotFoundError, ServerError
from mlcd.web.sessions import TEAM, account_name
from mlcd.web.settings import Oidc, is_loopback
from mlcd.web.site import Site

COOKIE = "mlcd_sso"
CALLBACK = "/api/v1/sso/callback"
SECONDS = 600  # between leaving for the provider and coming back
SECRET = "MLCD_OIDC_CLIENT_SECRET"  # noqa: S105  the name of the variable
_SCOPES = "openid profile email"
_LARGEST = 1_000_000  # bytes of an answer


@dataclass(frozen=True)
class Departure:
    """Someone on the way to the provider: where to send them, and what they bring back in a cookie."""

    url: str
    cookie: str


def depart(site: Site, to: str) -> Departure:
    """Send someone to the provider; `to` is where they want to be afterwards."""
    settings = _settings(site)
    state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    query = {
        "response_type": "code",
        "client_id": settings.client_id,
        "redirect_uri": _callback(site),
        "scope": _SCOPES,
        "state": state,
        "nonce": nonce,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
    }
    cookie = _serializer(site).dumps([state, nonce, verifier, to])
    return Departure(f"{_discover(settings)['authorization_endpoint']}?{urlencode(query)}", str(cookie))


def arrive(site: Site, cookie: str, state: str, code: str) -> tuple[Account, str]:
    """The account of someone who came back from the provider, a new one if need be; and where they want to be."""
    settings = _settings(site)
    try:
        expected, nonce, verifier, to = _serializer(site).loads(cookie, max_age=SECONDS)
    except (BadSignature, ValueError) as error:
        raise NotAllowedError("The sign-on took too long or began elsewhere.", "Try again.") from error
    if not secrets.compare_digest(expected.encode(), state.encode("utf-8", "replace")):
        raise NotAllowedError("The sign-on began elsewhere.", "Try again.")
    provider = _discover(settings)
    claims = _claims(settings, provider, _redeem(site, settings, provider, code, verifier), nonce)
    return _account(site, settings, claims), str(to)


def _settings(site: Site) -> Oidc:
    if site.serve.oidc is None or not site.serve.accounts:
        raise NotFoundError("This server has no single sign-on.")
    return site.serve.oidc


def _discover(settings: Oidc) -> dict[str, Any]:
    found = _fetch(f"{settings.issuer.rstrip('/')}/.well-known/openid-configuration")
    if found.get("issuer") != settings.issuer:
        raise ServerError("The identity provider calls itself something else than the settings do.")
    return found


def _redeem(site: Site, settings: Oidc, provider: Mapping[str, Any], code: str, verifier: str) -> str:
    """The ID token for a code."""
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": _callback(site),
        "client_id": settings.client_id,
        "client_secret": os.environ.get(SECRET, ""),
        "code_verifier": verifier,
    }
    return str(_fetch(str(provider["token_endpoint"]), form).get("id_token", ""))


def _claims(settings: Oidc, provider: Mapping[str, Any], token: str, nonce: str) -> dict[str, Any]:
    """What the provider says of someone, its signature checked."""
    try:
        from joserfc import jwt
        from joserfc.errors import JoseError
        from joserfc.jwk import KeySet
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            "Single sign-on needs the package joserfc.", "pip install 'mlcd[oidc]'"
        ) from error
    rules = jwt.JWTClaimsRegistry(
        leeway=60,
        iss={"essential": True, "value": settings.issuer},
        aud={"essential": True, "value": settings.client_id},
        exp={"essential": True},
        sub={"essential": True},
        nonce={"essential": True, "value": nonce},
    )
    try:
        keys = KeySet.import_key_set(_fetch(str(provider["jwks_uri"])))  # type: ignore[arg-type]  # checked by it
        found = jwt.decode(token, keys, algorithms=["RS256", "ES256", "PS256", "EdDSA"])
        rules.validate(found.claims)
    except (JoseError, ValueError) as error:
        raise NotAllowedError("The identity provider's word cannot be trusted.", "Try again.") from error
    return dict(found.claims)


def _account(site: Site, settings: Oidc, claims: Mapping[str, Any]) -> Account:
    accounts = site.accounts
    subject = f"{settings.issuer}|{claims['sub']}"
    known = accounts.of_subject(subject)
    if known is None:
        _refuse_strangers(settings, claims)
        if accounts.count() == 0:
            raise NotAllowedError(
                "The first account is made with the setup token.", "Ask who runs the server."
            )
        name = account_name(str(claims.get(settings.claim) or claims.get("email") or claims["sub"]))
        known = Account(name, Role.USER, TEAM, time.time(), subject=subject)
        accounts.add(known)
        site.note(name, "account made", name, f"by {settings.issuer}")
    if known.disabled:
        raise NotAllowedError("This account is disabled.", "Ask an admin.")
    site.note(known.name, "sign-in", "", f"by {settings.issuer}")
    return known


def _refuse_strangers(settings: Oidc, claims: Mapping[str, Any]) -> None:
    domain = str(claims.get("email", "")).rpartition("@")[2].lower()
    if settings.domains and (domain not in settings.domains or not claims.get("email_verified")):
        raise NotAllowedError("Your address is not one of those that may come in here.", "Ask an admin.")


def _callback(site: Site) -> str:
    return (site.serve.public_url or f"http://{site.serve.host}:{site.serve.port}").rstrip("/") + CALLBACK


def _serializer(site: Site) -> URLSafeTimedSerializer:
    return URLSafeTimedSerializer(site.vault.signing_key, salt="mlcd.sso")


def _fetch(url: str, form: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The JSON object at an address of the provider."""
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname or "")):
        raise ServerError(f"The identity provider's address {url} is not https.")
    body = None if form is None else urlencode(form).encode()
    request = urllib.request.Request(url, body, {"Accept": "application/json"})  # noqa: S310  looked at above
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310
            return dict(json.loads(answer.read(_LARGEST)))
    except urllib.error.HTTPError as error:
        raise NotAllowedError(f"The identity provider refused: {error.code}.", "Try again.") from error
    except (OSError, ValueError, TypeError) as error:
        raise NotAllowedError("The identity provider cannot be reached.", "Try again later.") from error
