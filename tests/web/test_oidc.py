"""Single sign-on against a small identity provider."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from joserfc.jwk import OctKey, RSAKey

from mlcd.web.settings import Oidc
from mlcd.web.site import Site
from web.issuers import Issuer
from web.people import Person, open_test_site, set_up


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    made = Issuer()
    yield made
    made.server.shutdown()


@pytest.fixture
def site(issuer: Issuer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("MLCD_OIDC_CLIENT_SECRET", "shared")
    monkeypatch.setattr(issuer, "changes", {})
    monkeypatch.setattr(issuer, "signing_key", issuer.key)
    made = open_test_site(tmp_path / "home", oidc=Oidc(issuer.url, "mlcd"), public_url="http://testserver")
    yield made
    made.close()


def test_whoever_the_provider_knows_gets_an_account_and_is_a_user(site: Site, issuer: Issuer) -> None:
    set_up(site)
    person = Person(site)
    assert issuer.sign_in(person).status_code == 303
    assert person.get("/session")["name"] == "ada"
    assert person.get("/session")["role"] == "user"
    again = Person(site)
    issuer.sign_in(again)
    assert again.get("/session")["name"] == "ada"
    assert site.accounts.count() == 2


def test_the_code_is_redeemed_with_the_verifier_of_its_challenge(site: Site, issuer: Issuer) -> None:
    set_up(site)
    issuer.sign_in(Person(site))
    digest = hashlib.sha256(issuer.redeemed["code_verifier"].encode()).digest()
    assert base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == issuer.asked["code_challenge"]
    assert issuer.redeemed["client_secret"] == "shared"
    assert issuer.asked["redirect_uri"] == "http://testserver/api/v1/sso/callback"


def test_the_first_account_is_not_made_by_single_sign_on(site: Site, issuer: Issuer) -> None:
    assert issuer.sign_in(Person(site)).status_code == 403
    assert site.accounts.count() == 0


def test_a_name_that_is_taken_stays_with_who_has_it(
    site: Site, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_up(site)
    monkeypatch.setattr(issuer, "changes", {"preferred_username": "Admin"})
    person = Person(site)
    assert issuer.sign_in(person).status_code == 400
    assert person("GET", "/session").status_code == 401


@pytest.mark.parametrize(
    "changes",
    [
        {"nonce": "other"},
        {"aud": "other"},
        {"iss": "https://evil.example"},
        {"exp": 1},
        {"azp": "other"},
        {"sub": None},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_token_for_another_occasion_is_refused(
    site: Site, issuer: Issuer, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    set_up(site)
    monkeypatch.setattr(issuer, "changes", changes)
    assert issuer.sign_in(Person(site)).status_code == 403


def test_a_token_signed_by_someone_else_is_refused(site: Site, issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    set_up(site)
    monkeypatch.setattr(issuer, "signing_key", RSAKey.generate_key(2048, {"kid": "1"}))
    assert issuer.sign_in(Person(site)).status_code == 403


def test_a_token_by_another_algorithm_is_refused(site: Site, issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above all one that anybody can sign who knows the client secret or the public key."""
    set_up(site)
    monkeypatch.setattr(issuer, "algorithm", "RS512")
    assert issuer.sign_in(Person(site)).status_code == 403
    monkeypatch.setattr(issuer, "algorithm", "HS256")
    monkeypatch.setattr(issuer, "signing_key", OctKey.import_key("shared-by-more-than-one-of-us-here"))
    assert issuer.sign_in(Person(site)).status_code == 403


def test_another_state_than_the_one_sent_is_refused(site: Site, issuer: Issuer) -> None:
    set_up(site)
    person = Person(site)
    person("GET", "/sso", follow_redirects=False)
    back = {"state": "other", "code": "code-1"}
    assert person("GET", "/sso/callback", params=back, follow_redirects=False).status_code == 403


def test_a_provider_by_plain_http_is_refused(tmp_path: Path) -> None:
    provider = Oidc("http://provider.example", "mlcd")
    site = open_test_site(tmp_path / "home", oidc=provider, public_url="http://testserver")
    assert Person(site)("GET", "/sso", follow_redirects=False).status_code == 409
    site.close()


def test_coming_back_without_having_left_is_refused(site: Site, issuer: Issuer) -> None:
    set_up(site)
    issuer.sign_in(Person(site))
    back = {"state": issuer.asked["state"], "code": "code-1"}
    assert Person(site)("GET", "/sso/callback", params=back).status_code == 403


def test_only_addresses_of_the_domain_come_in(issuer: Issuer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = Oidc(issuer.url, "mlcd", domains=("red.example",))
    site = open_test_site(tmp_path / "home", oidc=provider, public_url="http://testserver")
    set_up(site)
    assert issuer.sign_in(Person(site)).status_code == 403, "the address is not verified"
    monkeypatch.setattr(issuer, "changes", {"email_verified": True})
    assert issuer.sign_in(Person(site)).status_code == 303
    site.close()
