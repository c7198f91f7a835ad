"""What pages say to whoever asks, without a browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from mlcd import registry
from mlcd.core.goal import Aim
from mlcd.core.listing import JobLine, Page
from mlcd.core.run import JobState
from mlcd.reporting.html import tag
from mlcd.reporting.training_estimates import prices_by_type
from mlcd.web.app import create_app
from mlcd.web.pages import rendering
from mlcd.web.pages.assets import VERSION
from mlcd.web.pages.examples import example, examples, read_keys
from mlcd.web.pages.job_keys import form_keys
from mlcd.web.pages.rendering import html, part, price_age, size
from mlcd.web.sessions import inside
from mlcd.web.site import Site
from stories import planned, served
from web.people import ADMIN, PASSWORD, Person, hire, open_test_site, set_up

PAGE = {"Accept": "text/html"}
HEAD = Path(rendering.__file__).with_name("templates") / "base.html"
LINKED = re.findall(r'\("(/\w+)", "\w+"\)', HEAD.read_text())


def test_a_job_s_line_has_its_whole_message_and_where_it_trains() -> None:
    why = "No deployment can keep the budget: " + "word " * 60 + "end."
    line = JobLine(1, "j-1", "j", JobState.FAILED, "", "local", "auto", 0.0, 1.0, None, None, 0.1, True, why, 106)
    chosen = replace(line, deployment="4 × p3.2xlarge, batch 256")
    searching, planned = (part("parts/job_rows.html", found=Page([one]), show_owner=False) for one in (line, chosen))
    assert f">{why}</span>" in searching
    assert "local · auto" in searching
    assert "4 × p3.2xlarge, batch 256" in planned
    assert "local · auto" not in planned


def test_a_plan_shows_workers_and_servers_with_their_prices() -> None:
    view = served(planned())
    assert view.record.plan is not None
    prices = prices_by_type(view.record.plan.deployment)
    shown = part("parts/plan.html", view=view, record=view.record, samples="", prices=prices)
    assert "2 × p3.2xlarge + 2 × c5n.large serving" in shown
    assert "$6.34 an hour" in shown
    assert "(2 × p3.2xlarge at $6.12/h, 2 × c5n.large serving at $0.2200/h)" in shown


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    made = open_test_site(tmp_path_factory.mktemp("pages") / "home")
    yield made
    made.close()


@pytest.fixture(scope="module")
def admin(site: Site) -> Person:
    return set_up(site)


def test_the_head_of_each_page_links_to_the_others() -> None:
    assert {"/jobs", "/offers", "/team"} <= set(LINKED)


def test_whoever_has_not_signed_in_is_sent_to_where_one_does(site: Site, admin: Person) -> None:
    answer = Person(site).http.get("/offers", headers=PAGE, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/login?next=/offers")
    assert Person(site).http.get("/api/v1/offers", headers=PAGE).status_code == 401


def test_without_any_account_one_is_sent_to_make_the_first(tmp_path: Path) -> None:
    site = open_test_site(tmp_path / "home")
    answer = TestClient(create_app(site)).get("/jobs", headers=PAGE, follow_redirects=False)
    site.close()
    assert answer.headers["location"] == "/setup"


@pytest.mark.parametrize("path", ["/new", *LINKED])
def test_every_page_is_whole_and_runs_nothing_but_our_own_files(site: Site, admin: Person, path: str) -> None:
    answer = admin.http.get(path, headers=PAGE)
    assert answer.status_code == 200
    assert answer.text.rstrip().endswith("</html>")
    assert "'unsafe" not in answer.headers["content-security-policy"]
    assert not re.search(r"<script(?![^>]* src=)|<style|\sstyle=|\son\w+=", answer.text)
    for address in re.findall(r'(?:src|href)="(/static/[^"]+)"', answer.text):
        assert admin.http.get(address).status_code == 200, address


def test_an_error_of_a_page_is_a_page_and_of_the_api_is_data(site: Site, admin: Person) -> None:
    page = admin.http.get("/jobs/<b>nothing", headers=PAGE)
    assert page.status_code == 404
    assert "&lt;b&gt;nothing" in page.text
    assert admin.http.get("/api/v1/jobs/nothing", headers=PAGE).json()["error"]["type"] == "NotFoundError"
    assert admin.http.get("/no/such/page", headers=PAGE).status_code == 404
    assert admin.http.get("/jobs?state=sleeping", headers=PAGE).status_code == 422


def test_viewers_get_no_form_for_a_new_job_and_users_no_list_of_people(site: Site, admin: Person) -> None:
    viewer, user = hire(site, admin, "eye", role="viewer"), hire(site, admin, "ada")
    assert viewer.http.get("/new", headers=PAGE).status_code == 403
    assert "New job" not in viewer.http.get("/jobs", headers=PAGE).text
    assert "Audit log" not in user.http.get("/team", headers=PAGE).text
    assert "Audit log" in admin.http.get("/team", headers=PAGE).text


def test_a_page_carries_the_token_that_its_session_needs(site: Site, admin: Person) -> None:
    browser = Person(site)
    csrf = browser.post("/session", {"name": ADMIN, "password": PASSWORD})["csrf"]
    assert f'<meta name="csrf" content="{csrf}">' in browser.http.get("/jobs", headers=PAGE).text


def test_a_job_file_with_a_mistake_names_its_line(admin: Person) -> None:
    answer = admin.http.post("/new/read", json={"text": "run: x\nwork: ["})
    assert answer.status_code == 400
    assert "line" in answer.json()["error"]["message"]
    assert admin.http.post("/new/read", json={"text": "run: x"}).json() == {"job": {"run": "x"}}
    assert read_keys("  ") == {}


def test_the_form_shows_what_the_definition_says_of_every_key(admin: Person) -> None:
    page = unescape(admin.http.get("/new", headers=PAGE).text)
    missing = [key.name for key in form_keys().values() if key.meaning not in page]
    assert missing == []
    assert "<code>work.until.direction</code>" in page, "what has no field of its own is listed"
    assert "<code>work.samples</code>" not in page
    assert '"search": "strategy"' in page
    strategies = re.findall(r'<option value="([\w-]+)"( data-takes-hourly)?>\1: ', page)
    assert sorted(name for name, _ in strategies) == registry.names("searchers")
    assert [name for name, hourly in strategies if hourly] == [
        "cost-opt",
        "scala-opt",
        "scala-opt-m",
        "time-opt",
    ]
    assert strategies[0][0] == "auto"
    assert all(f"<option>{aim.value}</option>" in page for aim in Aim)


def test_an_example_is_the_same_upload_every_time(admin: Person) -> None:
    first, second = (admin.http.post("/new/examples/digits").json() for _ in range(2))
    assert first["upload"]["id"] == second["upload"]["id"]
    assert "workdir" not in first["job"]
    assert "train.py" in first["contents"]["scripts"]
    assert admin.http.post("/new/examples/none").status_code == 404
    assert {one.name for one in examples()} >= {"digits"}
    assert example("digits").job()["name"] == "digits"


def test_files_are_kept_by_browsers_and_change_their_address_with_their_content(admin: Person) -> None:
    answer = admin.http.get(f"/static/{VERSION}/app.js")
    assert "immutable" in answer.headers["cache-control"]
    assert admin.http.get("/static/another/app.js").status_code == 404
    assert admin.http.get("/favicon.ico").headers["content-type"] == "image/svg+xml"


@pytest.mark.parametrize("address", ["//evil.org", "https://evil.org", "/\\evil.org", "", "jobs", "/a\nb"])
def test_signing_in_leads_to_a_page_of_ours(address: str) -> None:
    assert inside(address) == "/jobs"
    assert inside("/offers?cloud=local") == "/offers?cloud=local"


def test_only_what_was_made_as_html_is_not_escaped() -> None:
    assert html(tag("b", "<i>")) == "<b>&lt;i&gt;</b>"
    assert html("<b>") == "&lt;b&gt;"  # type: ignore[arg-type]


def test_values_are_shown_as_people_say_them() -> None:
    assert [size(999), size(1500), size(2.5e6), size(3e9)] == ["999 bytes", "1.5 kB", "2.5 MB", "3.0 GB"]
    assert price_age("") == "now"
    assert price_age("2020-01-01").endswith("days old)")
