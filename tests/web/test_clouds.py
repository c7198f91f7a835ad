"""Who may use which cloud of a server, and with which options: nothing is connected to on a caller's word."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mlcd.clouds.ray.settings import RaySettings
from mlcd.core.accounts import Role
from mlcd.core.run import JobState
from mlcd.settings import Section, Settings
from mlcd.web.auth import Actor
from mlcd.web.clouds import may_go_on, refuse_job, runs_here
from mlcd.web.server import _who_runs_here
from mlcd.web.settings import ServeSettings
from mlcd.web.site import Site
from mlcd_functions.settings import FunctionsSettings
from stories import record
from web.people import API, Person, hire, open_test_site, set_up

JOB = {"name": "local", "run": "true", "work": {"samples": 10}, "resources": {"instance_type": "local-1c"}}


class Trap:
    """An address inside the server's network that must not be connected to."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._socket.settimeout(0.1)
        self.visits = 0
        self._closed = False
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._socket.getsockname()[1]}"

    def _listen(self) -> None:
        while not self._closed:
            try:
                self._socket.accept()[0].close()
            except TimeoutError:
                continue
            except OSError:
                return
            self.visits += 1

    def close(self) -> None:
        self._closed = True
        self._thread.join()
        self._socket.close()


@pytest.fixture
def trap() -> Iterator[Trap]:
    made = Trap()
    yield made
    made.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A server with accounts that allows no cloud by name."""
    made = open_test_site(tmp_path / "home", clouds=())
    yield made
    made.close()


@pytest.fixture
def admin(site: Site) -> Person:
    return set_up(site)


@pytest.fixture
def ada(site: Site, admin: Person) -> Person:
    return hire(site, admin, "ada")


def test_no_user_has_the_server_connect_to_an_address_of_theirs(
    site: Site, admin: Person, ada: Person, trap: Trap
) -> None:
    site.client.settings = replace(site.client.settings, clouds=(RaySettings(address="ray://elsewhere.example:10001"),))
    eve = hire(site, admin, "eve", role="viewer")
    options = {"address": trap.address}
    for person in (ada, eve):
        asked = {"cloud": "ray", "options": options}
        assert person("POST", "/offers", asked).status_code == 403
        assert person("GET", "/offers", params={"cloud": "local", "options": json.dumps(options)}).status_code == 403
    for path in ("/check", "/jobs"):
        answer = ada("POST", path, {"job": JOB, "cloud": "ray", "cloud_options": options})
        assert answer.status_code == 403
        assert "for admins" in answer.text
    assert trap.visits == 0


def test_a_get_takes_no_options_of_anyone(admin: Person, trap: Trap) -> None:
    """An admin's browser follows links of others: what they name is not connected to."""
    options = json.dumps({"address": f"ray://{trap.address}"})
    found = admin.get("/offers", params={"cloud": "local", "options": options})
    assert found["items"]
    assert trap.visits == 0


def test_offers_are_of_the_clouds_that_the_server_allows(tmp_path: Path) -> None:
    site = open_test_site(tmp_path / "home", accounts=False, insecure=True, clouds=("ec2",))
    for answer in (
        Person(site)("GET", "/offers", params={"cloud": "local"}),
        Person(site)("GET", "/offers"),
        Person(site)("POST", "/offers", {"cloud": "local"}),
        Person(site)("POST", "/offers", {"cloud": "ec2+local"}),
    ):
        assert answer.status_code == 400
        assert "may not run on 'local'" in answer.text
    site.close()


def test_offers_are_rate_limited(tmp_path: Path) -> None:
    site = open_test_site(tmp_path / "home", accounts=False, insecure=True, asks_per_minute=2)
    codes = [Person(site)("GET", "/offers", params={"cloud": "local"}).status_code for _ in range(3)]
    assert codes == [200, 200, 429]
    site.close()


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_another_sites_page_does_not_ask_for_offers(tmp_path: Path, method: str) -> None:
    site = open_test_site(tmp_path / "home", accounts=False, insecure=True)
    for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}):
        sent: dict[str, Any] = {"json": {}} if method == "POST" else {}
        answer = Person(site).http.request(method, f"{API}/offers", headers=headers, **sent)
        assert answer.status_code == 403
    site.close()


def test_users_do_not_run_programs_on_the_server_itself(site: Site, admin: Person, ada: Person) -> None:
    for cloud in ("local", "functions", "ray", "ec2+local", " local + ec2"):
        for path in ("/check", "/jobs"):
            answer = ada("POST", path, {"job": JOB, "cloud": cloud})
            assert answer.status_code == 403, (cloud, answer.text)
            assert "this server itself" in answer.text
            assert "mlcd serve --cloud" in answer.text
    assert ada("POST", "/jobs", {"job": JOB}).status_code == 403, "the usual cloud is local"
    assert "local" not in ada.get("/about")["clouds"]
    assert "local" in admin.get("/about")["clouds"]
    admin.post("/jobs", {"job": JOB})


def test_a_job_of_before_is_stopped_but_not_resumed_on_the_server_itself(site: Site, ada: Person) -> None:
    made = record(JobState.PAUSED, owner="ada")
    site.client.store.add_job(replace(made, id="old", cloud="local", cloud_options={}))
    for verb in ("start", "resume", "confirm", "move"):
        assert ada("POST", f"/jobs/old/{verb}", {}).status_code == 403, verb
    assert ada("POST", "/jobs/old/stop").status_code == 200


def test_a_job_of_before_does_not_go_on_with_options_of_a_user(site: Site, ada: Person, trap: Trap) -> None:
    site.client.settings = replace(site.client.settings, clouds=(RaySettings(address="ray://elsewhere.example:10001"),))
    made = record(JobState.PAUSED, owner="ada")
    options = {"address": f"ray://{trap.address}"}
    site.client.store.add_job(replace(made, id="old", cloud="ray", cloud_options=options))
    for verb in ("start", "resume", "confirm", "move"):
        answer = ada("POST", f"/jobs/old/{verb}", {})
        assert (answer.status_code, "for admins" in answer.text) == (403, True), verb
    assert ada("POST", "/jobs/old/stop").status_code == 200
    assert trap.visits == 0


def test_a_job_with_options_that_the_server_gave_goes_on(site: Site, ada: Person) -> None:
    made = record(JobState.PLANNED, owner="ada", started=True)
    options = {"trace": "/uploads/trace.csv", "state": "/jobs/new/replay.json"}
    site.client.store.add_job(replace(made, id="new", cloud="replay", cloud_options=options))
    refuse_job(site, Actor("ada", Role.USER), site.client.find("new"))
    assert may_go_on(site, site.client.find("new"))


def test_a_server_takes_over_only_what_its_owner_may_run_now(
    site: Site, ada: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []
    monkeypatch.setattr("mlcd.api.client.start_controller", lambda _settings, _store, job_id: started.append(job_id))
    made = record(JobState.SEARCHING, started=True)
    for owner, cloud, options in (
        ("admin", "local", {}),
        ("", "local", {}),
        ("ada", "local", {}),
        ("ada", "ec2", {}),
        ("ada", "ec2", {"region": "x"}),
        ("gone", "local", {}),
    ):
        name = "-".join((owner, cloud, *options))
        site.client.store.add_job(replace(made, id=name, owner=owner, cloud=cloud, cloud_options=options))
    assert site.client.revive() == 3
    assert sorted(started) == ["-local", "ada-ec2", "admin-local"]
    ada.get("/jobs/ada-local")
    assert "ada-local" not in started, "a look at it does not start it either"
    ada.post("/jobs/ada-local/stop")
    assert "ada-local" in started, "what runs is ended"


def test_a_server_that_names_local_lets_users_run_there(tmp_path: Path) -> None:
    site = open_test_site(tmp_path / "home", clouds=("local",))
    admin = set_up(site)
    ada = hire(site, admin, "ada")
    ada.post("/jobs", {"job": JOB})
    assert ada("POST", "/jobs", {"job": JOB, "cloud": "functions"}).status_code == 400
    site.close()


def test_models_of_users_are_not_run_on_the_server_itself(site: Site, admin: Person, ada: Person) -> None:
    for owner in ("ada", "admin"):
        made = record(JobState.SUCCEEDED, owner=owner, ended_at=1.0)
        site.client.store.add_job(replace(made, id=f"of-{owner}"))
        folder = site.client.settings.jobs / f"of-{owner}" / "model"
        folder.mkdir(parents=True)
        (folder / "predict.py").write_text("def predict(inputs):\n    return inputs\n")
    for person in (ada, admin):
        assert person("POST", "/models/of-ada/predict", {"inputs": [1]}).status_code == 403
        assert person("GET", "/models/of-ada/predict").status_code == 403
    assert admin.post("/models/of-admin/predict", {"inputs": [1]}) == {"outputs": [1]}


def test_the_page_of_a_new_job_says_what_is_not_theirs_to_use(ada: Person, admin: Person) -> None:
    shown = ada.http.get("/new").text
    assert "only admins may use the cloud <code>local</code>" in shown
    assert "<option>local</option>" not in shown
    assert "only admins may use" not in admin.http.get("/new").text


@pytest.mark.parametrize(
    ("name", "clouds", "here"),
    [
        ("local", (), True),
        ("functions", (), True),
        ("functions", (FunctionsSettings(endpoint="http://127.0.0.1:9001"),), True),
        ("functions", (FunctionsSettings(endpoint="aws"),), False),
        ("ray", (), True),
        ("ray", (RaySettings(address="ray://localhost:10001"),), True),
        ("ray", (RaySettings(address="[::1]:6379"),), True),
        ("ray", (RaySettings(address="ray://head.example:10001"),), False),
        ("ray", (RaySettings(address=f"{socket.gethostname()}:6379"),), True),
        ("ray", (RaySettings(address="192.0.2.1:6379"),), False),
        ("ec2", (), False),
        ("replay", (), False),
    ],
)
def test_clouds_that_are_this_computer_are_known(name: str, clouds: tuple[Section, ...], here: bool) -> None:
    assert runs_here(Settings(home=Path("/nowhere"), clouds=clouds), name) is here


@pytest.mark.parametrize(
    ("endpoint", "here"), [("http://127.0.0.2:43065", True), ("https://ec2.eu-west-1.amazonaws.com", False)]
)
@pytest.mark.parametrize("variable", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_EC2"])
def test_an_emulated_ec2_is_this_computer(
    monkeypatch: pytest.MonkeyPatch, variable: str, endpoint: str, here: bool
) -> None:
    monkeypatch.setenv(variable, endpoint)
    assert runs_here(Settings(home=Path("/nowhere")), "ec2") is here


@pytest.mark.parametrize("path", ["/offers", "/check", "/jobs"])
def test_several_clouds_together_are_no_cloud_of_that_name(admin: Person, path: str) -> None:
    sent = {"cloud": "together"} if path == "/offers" else {"job": JOB, "cloud": "together"}
    answer = admin("POST", path, sent)
    assert answer.status_code == 404
    assert "No cloud is called 'together'" in answer.text


def test_a_server_says_at_its_start_who_runs_programs_on_it() -> None:
    settings = Settings(home=Path("/nowhere"))
    (line,) = _who_runs_here(settings, ServeSettings(accounts=True, clouds=("ec2", "local")))
    assert line == (
        "Warning: --cloud local lets every user run programs on this computer: "
        "each can read the server's key, its database and its environment."
    )
    (line,) = _who_runs_here(settings, ServeSettings(accounts=True))
    assert line == "Only admins may run programs on this computer itself (cloud functions, local, ray)."
    assert _who_runs_here(settings, ServeSettings()) == []
