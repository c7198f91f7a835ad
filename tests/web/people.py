"""People of a server with accounts, in process: no port, no start-up."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from argon2 import PasswordHasher
from fastapi import FastAPI
from fastapi.testclient import TestClient
from httpx import Response

from mlcd import registry
from mlcd.clouds.local.settings import LocalSettings
from mlcd.settings import NotifySettings, Settings
from mlcd.store import open_store
from mlcd.web import passwords
from mlcd.web.app import create_app
from mlcd.web.passwords import digest
from mlcd.web.settings import ServeSettings
from mlcd.web.site import Site, open_site

# A password takes a fifth of a second by design; here hundreds are made. Real servers in other tests keep to it.
passwords._hasher = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1)

PASSWORD = "correct horse battery"
API = "/api/v1"
ADMIN = "admin"
NO_NOTICES = NotifySettings()


@cache
def _empty_database() -> bytes:
    """An up-to-date database without a row: making one takes a second."""
    with tempfile.TemporaryDirectory() as folder:
        open_store(f"sqlite:///{folder}/mlcd.db").close()
        return (Path(folder) / "mlcd.db").read_bytes()


def open_test_site(home: Path, notify: NotifySettings = NO_NOTICES, **options: Any) -> Site:
    """A site with accounts, of which there are none yet."""
    home.mkdir(parents=True)
    (home / "mlcd.db").write_bytes(_empty_database())
    settings = Settings(home=home, clouds=(LocalSettings(usd_per_core_hour=1.0, cores=2),), notify=notify)
    wanted = ServeSettings(
        **{
            "accounts": True,
            "clouds": tuple(registry.names("clouds")),  # each allowed by name, this computer too
            "posts_per_minute": 100_000,
            "uploads_per_minute": 100_000,
            "logins_per_minute": 1000,
            "watch_seconds": 3600.0,
            **options,
        }
    )
    return open_site(settings, wanted)


@cache
def app_of(home: Path) -> list[FastAPI]:
    """The application of a site, made once: its many schemas take a second."""
    return []


class Person:
    """Someone with a browser or a token."""

    def __init__(self, site: Site, token: str = "") -> None:
        made = app_of(site.client.settings.home)
        if not made:
            made.append(create_app(site))
        self.http = TestClient(made[0], base_url="http://testserver", raise_server_exceptions=False)
        if token:
            self.http.headers["Authorization"] = f"Bearer {token}"

    def __call__(self, method: str, path: str, json: Any = None, **options: Any) -> Response:
        return self.http.request(method, API + path, json=json, **options)

    def get(self, path: str, **options: Any) -> Any:
        return good(self("GET", path, **options)).json()

    def post(self, path: str, json: Any = None, **options: Any) -> Any:
        return good(self("POST", path, json, **options)).json()


def good(answer: Response) -> Response:
    assert answer.status_code < 300, (answer.status_code, answer.text)
    return answer


def set_up(site: Site) -> Person:
    """The first account, an admin with a token."""
    site.accounts.offer_setup(digest("setup"))
    browser = Person(site)
    csrf = browser.post("/setup", {"name": ADMIN, "password": PASSWORD, "setup_token": "setup"})["csrf"]
    made = browser.post("/tokens", {"label": "test"}, headers={"X-CSRF-Token": csrf})
    return Person(site, made["text"])


def hire(site: Site, admin: Person, name: str, **facts: Any) -> Person:
    """A new account with a token."""
    admin.post("/accounts", {"name": name, "password": PASSWORD, **facts})
    return Person(site, sign_in_for_token(site, name))


def sign_in_for_token(site: Site, name: str) -> str:
    browser = Person(site)
    csrf = browser.post("/session", {"name": name, "password": PASSWORD})["csrf"]
    return str(browser.post("/tokens", {"label": "test"}, headers={"X-CSRF-Token": csrf})["text"])
