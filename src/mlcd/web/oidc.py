"""Single sign-on by OpenID Connect with Authlib: discovery, authorization code with PKCE, a verified ID token.

Everybody whom the provider knows gets an account with the role 'user'. An account belongs to the provider's
subject: nobody gets the account of somebody else who has the same name.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from itsdangerous import BadSignature, URLSafeTimedSerializer

from mlcd.core.accounts import Account, Role
from mlcd.errors import MissingExtraError, NotAllowedError, NotFoundError, ServerError
from mlcd.web.sessions import TEAM, account_name
from mlcd.web.settings import Oidc, is_loopback
from mlcd.web.site import Site

if TYPE_CHECKING:
    from authlib.integrations.requests_client import OAuth2Session

COOKIE = "mlcd_sso"
CALLBACK = "/api/v1/sso/callback"
SECONDS = 600  # between leaving for the provider and coming back
SECRET = "MLCD_OIDC_CLIENT_SECRET"  # noqa: S105  the name of the variable
_ALGORITHMS = ["RS256", "ES256", "PS256", "EdDSA"]
_REQUEST = {"timeout": 20, "allow_redirects": False}


@dataclass(frozen=True)
class LoginRedirect:
    """Where to send the browser, and the cookie that it brings back."""

    url: str
    cookie: str


def depart(site: Site, to: str) -> LoginRedirect:
    """Send somebody to the provider; `to` is the page that they want afterwards."""
    nonce, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
    with _provider(site) as (session, endpoints):
        url, state = session.create_authorization_url(
            endpoints["authorization_endpoint"], nonce=nonce, code_verifier=verifier
        )
    return LoginRedirect(url, str(_serializer(site).dumps([state, nonce, verifier, to])))


def arrive(site: Site, cookie: str, state: str, code: str) -> tuple[Account, str]:
    """The account of somebody who came back from the provider, made if need be, and the page that they want."""
    settings = _settings(site)
    try:
        expected, nonce, verifier, to = _serializer(site).loads(cookie, max_age=SECONDS)
    except (BadSignature, ValueError) as error:
        raise NotAllowedError("The sign-on took too long or began elsewhere.", "Try again.") from error
    if not secrets.compare_digest(expected.encode(), state.encode("utf-8", "replace")):
        raise NotAllowedError("The sign-on began elsewhere.", "Try again.")
    with _provider(site) as (session, endpoints):
        token = session.fetch_token(_https(endpoints["token_endpoint"]), code=code, code_verifier=verifier, **_REQUEST)
        keys = _get(session, endpoints["jwks_uri"])
    return _account(site, settings, _claims(settings, token, keys, nonce)), str(to)


def _settings(site: Site) -> Oidc:
    if site.serve.oidc is None or not site.serve.accounts:
        raise NotFoundError("This server has no single sign-on.")
    return site.serve.oidc


@contextmanager
def _provider(site: Site) -> Iterator[tuple[OAuth2Session, dict[str, Any]]]:
    """A session with the identity provider, and its endpoints; failures there are errors that the user may see."""
    settings = _settings(site)
    try:
        from authlib.common.errors import AuthlibBaseError
        from authlib.integrations.requests_client import OAuth2Session
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"Single sign-on needs the package {error.name}.", "pip install 'mlcd[oidc]'"
        ) from error
    session = OAuth2Session(
        settings.client_id,
        os.environ.get(SECRET, ""),
        scope="openid profile email",
        redirect_uri=_callback(site),
        token_endpoint_auth_method="client_secret_post",  # noqa: S106  how it is sent
        code_challenge_method="S256",
    )
    try:
        with session:
            yield session, _discover(session, settings)
    except AuthlibBaseError as error:
        raise NotAllowedError("The identity provider refused the sign-on.", "Try again.") from error
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise NotAllowedError("The identity provider cannot be reached.", "Try again later.") from error


def _discover(session: OAuth2Session, settings: Oidc) -> dict[str, Any]:
    found = _get(session, f"{settings.issuer.rstrip('/')}/.well-known/openid-configuration")
    if found.get("issuer") != settings.issuer:
        raise ServerError("The identity provider's issuer differs from the one in the settings.")
    return found


def _get(session: OAuth2Session, url: str) -> dict[str, Any]:
    """The JSON object at an address of the provider."""
    answer = session.get(_https(url), withhold_token=True, **_REQUEST)
    answer.raise_for_status()
    return dict(answer.json())


def _https(url: str) -> str:
    """The address, which must be https, or http on this computer."""
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname or "")):
        raise ServerError(f"The identity provider's address {url} is not https.")
    return url


def _claims(settings: Oidc, token: Mapping[str, Any], keys: Mapping[str, Any], nonce: str) -> dict[str, Any]:
    """The verified claims of the ID token."""
    from authlib.oidc.core import CodeIDToken
    from joserfc import jwt
    from joserfc.errors import JoseError
    from joserfc.jwk import KeySet

    rules = {
        "iss": {"essential": True, "value": settings.issuer},
        "aud": {"essential": True, "value": settings.client_id},
        "nonce": {"essential": True, "value": nonce},
    }
    known = {"nonce": nonce, "client_id": settings.client_id, "access_token": token.get("access_token")}
    try:
        key_set = KeySet.import_key_set(keys)  # type: ignore[arg-type]  # checked by it
        found = jwt.decode(str(token.get("id_token", "")), key_set, algorithms=_ALGORITHMS)
        claims = CodeIDToken(found.claims, found.header, rules, known)
        claims.validate(leeway=60)
    except (JoseError, ValueError) as error:
        raise NotAllowedError("The identity provider's ID token is not valid.", "Try again.") from error
    return dict(claims)


def _account(site: Site, settings: Oidc, claims: Mapping[str, Any]) -> Account:
    accounts = site.accounts
    subject = f"{settings.issuer}|{claims['sub']}"
    known = accounts.of_subject(subject)
    if known is None:
        _refuse_strangers(settings, claims)
        if accounts.count() == 0:
            raise NotAllowedError("The first account is made with the setup token.", "Ask whoever runs the server.")
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
