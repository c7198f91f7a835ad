"""Accounts: the first one, roles, passwords, tokens, sessions, budgets and the audit log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mlcd.engine.secrets import read_secrets
from mlcd.errors import NotAllowedError, TooManyRequestsError, UserError
from mlcd.settings import NotifySettings
from mlcd.web.auth import COOKIE
from mlcd.web.passwords import digest, split_token
from mlcd.web.rate_limit import FORGET_SECONDS, FREE_GUESSES, MOST_WAIT_SECONDS, Backoff, network_of
from mlcd.web.sessions import sign_in
from mlcd.web.settings import wants_accounts
from mlcd.web.site import Site
from web.people import ADMIN, PASSWORD, Person, hire, open_test_site, set_up, sign_in_for_token


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = open_test_site(tmp_path / "home")
    yield made
    made.close()


@pytest.fixture
def admin(site: Site) -> Person:
    return set_up(site)


JOB = {"name": "local", "run": "true", "work": {"samples": 10}, "resources": {"instance_type": "local-1c"}}


def test_accounts_are_off_on_loopback_and_on_elsewhere() -> None:
    assert wants_accounts("127.0.0.1", None, False, 0) is False
    assert wants_accounts("::1", None, False, 0) is False
    assert wants_accounts("0.0.0.0", None, False, 0) is True
    assert wants_accounts("mlcd.example.org", None, False, 0) is True
    assert wants_accounts("127.0.0.1", None, False, known=3) is True, "accounts once made are not forgotten"


def test_a_public_address_without_accounts_is_refused_unless_one_insists() -> None:
    with pytest.raises(UserError, match="anyone who reaches"):
        wants_accounts("0.0.0.0", False, False, 0)
    assert wants_accounts("0.0.0.0", False, True, 0) is False


def test_the_first_account_needs_the_setup_token_and_is_an_admin(site: Site) -> None:
    site.accounts.offer_setup(digest("right"))
    person = Person(site)
    wanted = {"name": "eve", "password": PASSWORD}
    assert person("POST", "/setup", {**wanted, "setup_token": "wrong"}).status_code == 403
    assert person.post("/setup", {**wanted, "setup_token": "right"})["role"] == "admin"
    assert Person(site)("POST", "/setup", {**wanted, "name": "mallory", "setup_token": "right"}).status_code == 403
    assert site.accounts.count() == 1


def test_a_restart_voids_the_setup_token_that_was_printed_before(site: Site) -> None:
    site.accounts.offer_setup(digest("old"))
    site.accounts.offer_setup(digest("new"))
    sent = {"name": "eve", "password": PASSWORD, "setup_token": "old"}
    assert Person(site)("POST", "/setup", sent).status_code == 403


def test_without_signing_in_nothing_is_said(site: Site, admin: Person) -> None:
    for path in ("/jobs", "/me", "/offers", "/about", "/secrets", "/history"):
        answer = Person(site)("GET", path)
        assert answer.status_code == 401
        assert answer.json()["error"]["type"] == "NotAllowedError"
        assert answer.headers["www-authenticate"] == "Bearer"


def test_others_are_users_and_nobody_makes_themselves_an_admin(site: Site, admin: Person) -> None:
    ada = hire(site, admin, "ada")
    assert ada.get("/me")["account"]["role"] == "user"
    assert ada("POST", "/accounts", {"name": "x", "password": PASSWORD, "role": "admin"}).status_code == 403
    assert ada("PATCH", "/accounts/ada", {"role": "admin"}).status_code == 403
    assert admin("PATCH", f"/accounts/{ADMIN}", {"role": "user"}).status_code == 400, "the last admin stays one"


def test_wrong_names_and_wrong_passwords_are_told_apart_by_nobody(site: Site, admin: Person) -> None:
    answers = [
        Person(site)("POST", "/session", {"name": name, "password": "not this one"}) for name in (ADMIN, "nobody")
    ]
    assert [answer.status_code for answer in answers] == [403, 403]
    assert answers[0].json() == answers[1].json()


def test_signing_in_is_limited(tmp_path: Path) -> None:
    site = open_test_site(tmp_path / "home", logins_per_minute=3)
    codes = [Person(site)("POST", "/session", {"name": "x", "password": "y"}).status_code for _ in range(5)]
    assert codes == [403, 403, 403, 429, 429]
    site.close()


def test_posts_are_limited(tmp_path: Path) -> None:
    site = open_test_site(tmp_path / "home", accounts=False, posts_per_minute=2, insecure=True)
    codes = [Person(site)("POST", "/sweep", {"end": False}).status_code for _ in range(4)]
    assert codes == [200, 200, 429, 429]
    site.close()


def test_passwords_and_tokens_are_not_in_the_database(site: Site, admin: Person) -> None:
    token = sign_in_for_token(site, ADMIN)
    admin("PUT", "/secrets/HF_TOKEN", {"value": "hf_verysecret"})
    secret = (split_token(token) or ())[1]
    files = [path.read_bytes() for path in site.client.settings.home.rglob("*") if path.is_file()]
    for text in (PASSWORD, token, secret, "hf_verysecret"):
        assert not any(text.encode() in content for content in files), text
    assert any(b"argon2" in content for content in files)


def test_the_key_file_is_for_the_owner_only(site: Site) -> None:
    assert (site.client.settings.home / "secret.key").stat().st_mode & 0o777 == 0o600


def test_a_revoked_token_is_no_way_in(site: Site, admin: Person) -> None:
    ada = hire(site, admin, "ada")
    (token,) = ada.get("/tokens")["items"]
    assert ada("DELETE", f"/tokens/{token['id']}").status_code == 204
    assert ada("GET", "/me").status_code == 401


def test_a_disabled_account_is_out_at_once(site: Site, admin: Person) -> None:
    ada = hire(site, admin, "ada")
    admin("PATCH", "/accounts/ada", {"disabled": True})
    assert ada("GET", "/me").status_code == 401
    assert Person(site)("POST", "/session", {"name": "ada", "password": PASSWORD}).status_code == 403


def test_a_token_asked_for_twice_with_one_key_is_one_token_and_sealed(site: Site, admin: Person) -> None:
    key = {"Idempotency-Key": "same"}
    first = admin.post("/tokens", {"label": "x"}, headers=key)
    second = admin.post("/tokens", {"label": "x"}, headers=key)
    assert first == second
    assert len([token for token in admin.get("/tokens")["items"] if token["label"] == "x"]) == 1
    files = [path.read_bytes() for path in site.client.settings.home.rglob("mlcd.db*")]
    assert not any(first["text"].encode() in content for content in files)


def test_a_session_cookie_is_signed_http_only_and_ends_with_the_session(site: Site, admin: Person) -> None:
    browser = Person(site)
    answer = browser("POST", "/session", {"name": ADMIN, "password": PASSWORD})
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    kept = browser.http.cookies[COOKIE]
    csrf = {"X-CSRF-Token": answer.json()["csrf"]}
    assert browser.get("/session")["name"] == ADMIN
    forged = Person(site)
    forged.http.cookies.set(COOKIE, kept[:-9] + ("a" if kept[-9] != "a" else "b") + kept[-8:])
    assert forged("GET", "/session").status_code == 401
    assert browser("DELETE", "/session", headers=csrf).status_code == 204
    thief = Person(site)
    thief.http.cookies.set(COOKIE, kept)
    assert thief("GET", "/session").status_code == 401


def test_a_new_password_ends_all_sessions(site: Site, admin: Person) -> None:
    browser = Person(site)
    csrf = {"X-CSRF-Token": browser.post("/session", {"name": ADMIN, "password": PASSWORD})["csrf"]}
    short = browser("PUT", "/me/password", {"old": PASSWORD, "new": "short"}, headers=csrf)
    assert short.status_code == 400
    changed = browser("PUT", "/me/password", {"old": PASSWORD, "new": "another long one"}, headers=csrf)
    assert changed.status_code == 204
    assert browser("GET", "/session").status_code == 401


def test_a_session_changes_nothing_without_its_csrf_token(site: Site, admin: Person) -> None:
    browser = Person(site)
    csrf = browser.post("/session", {"name": ADMIN, "password": PASSWORD})["csrf"]
    assert browser("POST", "/tokens", {"label": "x"}).status_code == 403
    assert browser("POST", "/tokens", {"label": "x"}, headers={"X-CSRF-Token": "0" * 64}).status_code == 403
    evil = {"X-CSRF-Token": csrf, "Origin": "https://evil.example"}
    assert browser("POST", "/tokens", {"label": "x"}, headers=evil).status_code == 403
    assert browser("POST", "/tokens", {"label": "x"}, headers={"X-CSRF-Token": csrf}).status_code == 201


def test_a_viewer_sees_the_jobs_of_the_team_and_changes_nothing(site: Site, admin: Person) -> None:
    ada, eye = hire(site, admin, "ada", team="red"), hire(site, admin, "eye", team="red", role="viewer")
    stranger = hire(site, admin, "stranger", team="blue", role="viewer")
    job_id = ada.post("/jobs", {"job": JOB})["id"]
    assert [line["id"] for line in eye.get("/jobs")["items"]] == [job_id]
    assert stranger.get("/jobs")["items"] == []
    assert eye("POST", f"/jobs/{job_id}/stop").status_code == 403
    assert eye("POST", "/jobs", {"job": JOB}).status_code == 403
    assert eye("POST", "/uploads", content=b"x").status_code == 403


def test_a_monthly_budget_holds_before_anything_is_spent(site: Site, admin: Person) -> None:
    ada = hire(site, admin, "ada", budget_usd=10)
    missing = ada("POST", "/jobs", {"job": JOB})
    assert missing.status_code == 402
    assert missing.json()["error"]["exit_code"] == 104
    assert "needs a budget" in missing.json()["error"]["message"]
    first = ada.post("/jobs", {"job": {**JOB, "budget": 6}})["id"]
    refused = ada("POST", "/jobs", {"job": {**JOB, "budget": 5}})
    assert refused.status_code == 402
    assert "only $4.00 are left" in refused.json()["error"]["message"]
    ada.post("/jobs", {"job": {**JOB, "budget": 4}})
    assert ada("POST", f"/jobs/{first}/resume", {"budget_usd": 7}).status_code == 402
    assert ada.get(f"/jobs/{first}/record")["budget_usd"] == 6
    assert len(ada.get("/jobs")["items"]) == 2


def test_a_team_budget_is_shared(site: Site, admin: Person) -> None:
    ada, bob = hire(site, admin, "ada", team="red"), hire(site, admin, "bob", team="red")
    carl = hire(site, admin, "carl", team="blue")
    assert admin("PUT", "/teams/red", {"budget_usd": 10}).status_code == 200
    ada.post("/jobs", {"job": {**JOB, "budget": 8}})
    assert bob("POST", "/jobs", {"job": {**JOB, "budget": 5}}).status_code == 402
    bob.post("/jobs", {"job": {**JOB, "budget": 2}})
    carl.post("/jobs", {"job": {**JOB, "budget": 500}})


def test_a_budget_that_shrank_stops_a_confirmation(site: Site, admin: Person) -> None:
    ada = hire(site, admin, "ada")
    job_id = ada.post("/jobs", {"job": {**JOB, "budget": 50}})["id"]
    admin("PATCH", "/accounts/ada", {"budget_usd": 10})
    assert ada("POST", f"/jobs/{job_id}/confirm").status_code == 402


def test_what_is_done_is_in_the_audit_log_which_admins_read_in_pages(site: Site, admin: Person) -> None:
    ada = hire(site, admin, "ada")
    job_id = ada.post("/jobs", {"job": JOB})["id"]
    assert ada("GET", "/audit").status_code == 403
    first = admin.get("/audit", params={"limit": 1})
    assert (first["items"][0]["action"], first["items"][0]["thing"]) == ("submit", job_id)
    rest = admin.get("/audit", params={"cursor": first["next"]})["items"]
    assert {"setup", "account made", "token made", "sign-in"} <= {entry["action"] for entry in rest}


def test_a_stored_secret_is_never_read_back_and_reaches_the_job_that_names_it(site: Site, admin: Person) -> None:
    ada, bob = hire(site, admin, "ada"), hire(site, admin, "bob")
    assert ada("PUT", "/secrets/KEY", {"value": "s3cret"}).status_code == 204
    assert [item["name"] for item in ada.get("/secrets")["items"]] == ["KEY"]
    assert bob.get("/secrets")["items"] == []
    named = {**JOB, "secrets": ["KEY"]}
    job_id = ada.post("/jobs", {"job": named})["id"]
    assert ada.get(f"/jobs/{job_id}/record")["job"]["secret_names"] == ["KEY"]
    assert read_secrets(site.client.settings.jobs / job_id) == {"KEY": "s3cret"}
    files = [path for path in site.client.settings.home.rglob("*") if path.is_file()]
    assert not any(b"s3cret" in path.read_bytes() for path in files), "sealed, the job's copy too"
    assert bob("POST", "/jobs", {"job": named}).status_code == 422
    assert ada("DELETE", "/secrets/KEY").status_code == 204
    assert ada("POST", "/jobs", {"job": named}).status_code == 422


def test_a_job_of_an_account_may_not_have_this_network_asked(site: Site, admin: Person) -> None:
    ada = hire(site, admin, "webby")
    for address in ("http://127.0.0.1:9/x", "http://169.254.169.254/latest/", "https://vault.internal/"):
        for sent in (address, {"slack": address}, [{"webhook": address}]):
            answer = ada("POST", "/jobs", {"job": {**JOB, "on_event": sent}})
            assert answer.status_code == 400, (address, answer.text)
            assert "address of this network" in answer.text
            assert ada("POST", "/check", {"job": {**JOB, "on_event": sent}}).status_code == 400
    ada.post("/jobs", {"job": {**JOB, "on_event": ["https://example.org/hook", "ada@localhost.org"]}})


def test_an_admin_may_allow_it(tmp_path: Path) -> None:
    site = open_test_site(tmp_path / "home", notify=NotifySettings(allow_private=True))
    ada = hire(site, set_up(site), "ada")
    ada.post("/jobs", {"job": {**JOB, "on_event": "http://127.0.0.1:9/x"}})
    site.close()


def guess(site: Site, name: str, password: str, address: str) -> int:
    """What a sign-in from that address is answered."""
    try:
        sign_in(site, name, password, address)
    except TooManyRequestsError:
        return 429
    except NotAllowedError:
        return 403
    return 200


def test_wrong_passwords_from_elsewhere_lock_nobody_out(site: Site, admin: Person) -> None:
    hire(site, admin, "ada")
    codes = [guess(site, "ada", "wrong password", "203.0.113.9") for _ in range(20)]
    assert codes == [403] * FREE_GUESSES + [429] * (20 - FREE_GUESSES)
    assert guess(site, "ada", PASSWORD, "203.0.113.9") == 429
    assert guess(site, "ada", PASSWORD, "198.51.100.7") == 200
    assert guess(site, ADMIN, PASSWORD, "203.0.113.9") == 200


def test_the_addresses_of_one_ipv6_network_count_as_one(site: Site, admin: Person) -> None:
    hire(site, admin, "ada")
    codes = [guess(site, "ada", "wrong password", f"2001:db8::{number}") for number in range(1, 8)]
    assert codes == [403] * FREE_GUESSES + [429] * (7 - FREE_GUESSES)
    assert guess(site, "ada", PASSWORD, "2001:db8:0:1::1") == 200
    assert network_of("::ffff:192.0.2.1") == network_of("192.0.2.1") == "192.0.2.1"
    assert network_of("testclient") == "testclient"


def test_each_wrong_guess_doubles_the_wait_and_a_right_one_forgets_them() -> None:
    now = [0.0]
    backoff = Backoff(lambda: now[0])

    def waited() -> float:
        """How long until the next guess is heard."""
        began = now[0]
        while True:
            try:
                backoff.attempt("ada")
            except TooManyRequestsError:
                now[0] += 0.5
            else:
                return now[0] - began

    assert [waited() for _ in range(FREE_GUESSES + 4)] == [0.0] * FREE_GUESSES + [1.0, 2.0, 4.0, 8.0]
    for _ in range(12):
        longest = waited()
    assert longest == MOST_WAIT_SECONDS
    backoff.attempt("bob")
    backoff.right("ada")
    assert waited() == 0.0


def test_wrong_guesses_are_forgotten_after_an_hour() -> None:
    now = [0.0]
    backoff = Backoff(lambda: now[0])
    for _ in range(FREE_GUESSES):
        backoff.attempt("ada")
    now[0] += FORGET_SECONDS + 1
    for _ in range(FREE_GUESSES):
        backoff.attempt("ada")
