"""The pages in a real browser, on this computer's own cloud."""

from __future__ import annotations

import json
import re
import textwrap
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mlcd.core.datasets import data_sets
from mlcd.core.run import JobState
from small_jobs import PROGRAM
from web.issuers import Issuer
from web.servers import PASSWORD, Server, connection, remote, served

pytestmark = pytest.mark.slow  # each trains

if TYPE_CHECKING:
    from playwright.sync_api import Dialog, Locator, Page

OpenPage = Callable[..., Any]

QUICK = {
    "probe": {"warmup_seconds": 0.1, "min_seconds": 0.3, "max_seconds": 2, "silent_seconds": 10},
    "checkpoint": {"grace_seconds": 2},
}
LEARNS_A_LINE = """
import json, os, random, shutil, time
import mlcd

slope, start, done = 0.0, 0.0, 0
total = int(os.environ["MLCD_WORK_SAMPLES"])
for batch in mlcd.steps([[random.uniform(-1, 1) for _ in range(10)] for _ in range(total // 10)]):
    errors = [slope * x + start - (2 * x + 1) for x in batch]
    slope -= 0.1 * sum(error * x for error, x in zip(errors, batch)) / len(batch)
    start -= 0.1 * sum(errors) / len(batch)
    done += len(batch)
    mlcd.report(loss=sum(error * error for error in errors) / len(batch))
    time.sleep(0.02)
folder = os.environ["MLCD_OUTPUT_DIR"]
os.makedirs(folder, exist_ok=True)
shutil.copy("predict.py", folder)
with open(os.path.join(folder, "line.json"), "w") as stream:
    json.dump({"slope": slope, "start": start}, stream)
print("trained", done)
"""
PREDICTS = """
import json
from pathlib import Path

line = json.loads(Path(__file__).with_name("line.json").read_text())

def predict(inputs):
    return [line["slope"] * value + line["start"] for value in inputs]
"""
PHONE = {"viewport": {"width": 400, "height": 800}, "is_mobile": True, "has_touch": True}


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """A small program as people send it."""
    return _packed(tmp_path, {"train.py": PROGRAM})


def test_from_a_new_job_to_a_downloaded_model_and_its_predictions(
    open_server: Server, open_page: OpenPage, tmp_path: Path
) -> None:
    page = open_page(f"{open_server.url}/new")
    _fill(page, _packed(tmp_path, {"train.py": LEARNS_A_LINE, "predict.py": PREDICTS}), samples=4000)
    page.click("[data-check]")
    _expect(page.locator("[data-checked] tbody tr")).to_have_count(1)
    page.click("[data-start]")
    page.wait_for_url("**/jobs/small-*")
    plan = page.locator("section.plan")
    _expect(plan).to_contain_text("Nothing is spent on training until you accept")
    _expect(plan).to_contain_text("$")
    assert remote(open_server).view(page.url.rpartition("/")[2]).run.attempts == ()
    _expect(page.locator("[data-place=beliefs] figure")).not_to_have_count(0)
    page.click("text=Accept the plan and train")
    _moves(page.locator("[data-place=training] figure").first)
    _expect(_state(page)).to_have_text("succeeded")
    _expect(page.locator("[data-log]")).to_contain_text("trained 4000")
    with page.expect_download() as download:
        page.click("text=Download the model")
    download.value.save_as(tmp_path / "model.zip")
    with zipfile.ZipFile(tmp_path / "model.zip") as model:
        assert json.loads(model.read("line.json"))["slope"] == pytest.approx(2.0, abs=0.1)
    page.click("text=Try the model")
    _expect(page.locator("[data-about]")).to_contain_text("predict.py")
    page.fill("[name=inputs]", "[3, -4")
    page.click("button:text('Predict')")
    _expect(page.locator("[data-model] [data-error]")).to_contain_text("not JSON")
    page.fill("[name=inputs]", "[3, -4]")
    page.click("button:text('Predict')")
    outputs = page.locator("[data-outputs] pre")
    _expect(outputs).not_to_be_empty()
    assert json.loads(outputs.inner_text()) == pytest.approx([7.0, -7.0], abs=0.3)
    page.fill("[name=inputs]", '["seven"]')
    page.click("button:text('Predict')")
    _expect(page.locator("[data-model] [data-error]")).to_contain_text("TypeError")


def test_a_training_is_stopped_resumed_and_given_another_budget(
    open_server: Server, open_page: OpenPage, tmp_path: Path
) -> None:
    job_id = _start(open_server, tmp_path, samples=100_000, nodes=2)
    page = open_page(f"{open_server.url}/jobs/{job_id}")
    _expect(_state(page)).to_have_text("training")
    nodes = page.locator("table.nodes tbody tr")
    _expect(nodes).to_have_count(2)
    _expect(nodes.nth(1).locator("td").nth(2)).to_have_text(re.compile(r"[1-9]\d* GiB"))
    legend = page.locator("[data-place=usage] figure", has_text="CPU").locator("li")
    _expect(legend).to_have_text(["node 0", "node 1"])
    page.on("dialog", lambda dialog: dialog.accept())  # the newest steps may be in no checkpoint yet
    page.click("text=Stop")
    _expect(_state(page)).to_have_text("stopped")
    page.click("text=Resume")
    _expect(_state(page)).to_have_text("training")
    page.click("text=Change limits")
    page.fill("[name=budget_usd]", "0.0000001")
    page.click("text=Save")
    _expect(page.locator("#limits [data-error]")).to_contain_text("is spent already")
    page.fill("[name=budget_usd]", "7.5")
    page.click("text=Save")
    _expect(page.locator(".goal")).to_contain_text("$7.50")
    page.click("text=Stop")
    _expect(_state(page)).to_have_text("stopped")
    assert remote(open_server).view(job_id).record.budget_usd == 7.5


def test_stopping_says_first_what_is_lost(open_server: Server, open_page: OpenPage, tmp_path: Path) -> None:
    job_id = _start(open_server, tmp_path, samples=100_000, program=PROGRAM.replace("% 25 == 24", "< 0"))
    page = open_page(f"{open_server.url}/jobs/{job_id}")
    _expect(_state(page)).to_have_text("training")
    _expect(page.locator("[data-part=cards]")).to_contain_text(re.compile(r"[\d.]+k?/s"))
    asked: list[str] = []

    def refuse(dialog: Dialog) -> None:
        asked.append(dialog.message)
        dialog.dismiss()

    page.once("dialog", refuse)
    page.click("[data-do=stop]")
    assert len(asked) == 1
    assert "lost" in asked[0]
    assert not remote(open_server).view(job_id).record.stop_asked
    page.once("dialog", lambda dialog: dialog.accept())
    page.click("[data-do=stop]")
    _expect(_state(page)).to_have_text("stopped")


def test_a_bad_upload_is_refused_where_it_was_chosen(
    open_server: Server, open_page: OpenPage, archive: Path, tmp_path: Path
) -> None:
    broken, climbing = tmp_path / "broken.zip", tmp_path / "climbing.zip"
    broken.write_bytes(b"this is no archive")
    with zipfile.ZipFile(climbing, "w") as packed:
        packed.writestr("../train.py", "print()")
    page = open_page(f"{open_server.url}/new")
    page.set_input_files("[name=archive]", broken)
    _expect(_error(page, "code")).to_contain_text("is not an archive that can be read")
    page.set_input_files("[name=archive]", climbing)
    _expect(_error(page, "code")).to_contain_text("leads elsewhere")
    page.click("[data-start]")
    _expect(_error(page, "code")).not_to_be_empty()
    page.set_input_files("[name=archive]", archive)
    _expect(page.locator("[name=run]")).to_have_value("python train.py")
    _expect(_error(page, "code")).to_be_empty()


def test_what_is_wrong_is_said_at_its_step_and_nothing_starts(
    open_server: Server, open_page: OpenPage, archive: Path
) -> None:
    before = len(remote(open_server).lines(limit=500).items)
    page = open_page(f"{open_server.url}/new")
    _fill(page, archive, samples=4000)
    page.fill("[name=budget]", "0.000001")
    page.click("[data-start]")
    _expect(_error(page, "budget")).to_contain_text("is too small: the cheapest probe alone costs")
    page.fill("[name=budget]", "5")
    page.fill("[name=more]", "bugdet: 5")
    page.click("[data-start]")
    _expect(_error(page, "more")).to_contain_text("budget")
    page.fill("[name=more]", "probe: [")
    page.click("[data-start]")
    _expect(_error(page, "more")).to_contain_text("line")
    assert len(remote(open_server).lines(limit=500).items) == before


def test_a_start_whose_answer_got_lost_makes_one_job_when_it_is_repeated(
    open_server: Server, open_page: OpenPage, archive: Path
) -> None:
    page = open_page(f"{open_server.url}/new")
    _fill(page, archive, samples=4000)
    page.fill("[name=name]", "lost answer")
    lost: list[str] = []

    def lose_the_first(route: Any) -> None:
        if lost:
            route.continue_()
            return
        lost.append(route.fetch().json()["id"])  # the server has made the job
        route.abort()

    page.route("**/api/v1/jobs", lose_the_first)
    page.click("[data-start]")
    _expect(_error(page, "all")).to_contain_text("The server cannot be reached")
    page.click("[data-start]")
    page.wait_for_url(f"**/jobs/{lost[0]}")
    assert [line.id for line in remote(open_server).lines(words="lost answer").items] == lost


def test_a_package_is_started_by_its_name(open_server: Server, open_page: OpenPage, tmp_path: Path) -> None:
    wheel = tmp_path / "learner-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as packed:
        for name in ("learner/__init__.py", "learner/__main__.py", "learner-1.0.dist-info/METADATA"):
            packed.writestr(name, "")
    page = open_page(f"{open_server.url}/new")
    page.set_input_files("[name=archive]", wheel)
    _expect(page.locator("[name=run]")).to_have_value("python -m learner")
    _expect(page.locator("[name=name]")).to_have_value("learner")
    page.fill("[name=work_amount]", "1")
    page.check("[name=data][value=upload]")
    page.click("[data-check]")
    _expect(_error(page, "data")).to_contain_text("no file is chosen")
    page.check("[name=data][value=program]")
    page.check("[name=how][value=hand]")
    page.click("[data-check]")
    _expect(_error(page, "resources")).to_contain_text("no instance type is chosen")


def test_an_example_fills_the_steps_at_one_click(open_server: Server, open_page: OpenPage) -> None:
    page = open_page(f"{open_server.url}/new")
    page.click("#example-digits")
    _expect(page.locator("[name=run]")).to_have_value("python train.py")
    _expect(page.locator("[name=platform]")).to_have_value("pytorch")
    _expect(page.locator("[name=dataset_size]")).to_have_value("1437")
    _expect(page.locator("[data-uploaded]")).to_contain_text("digits.tar")
    page.click("[data-check]")
    _expect(page.locator("[data-checked] tbody tr")).not_to_have_count(0)


def test_a_built_in_data_set_is_chosen_and_found_by_the_program(
    open_server: Server, open_page: OpenPage, tmp_path: Path
) -> None:
    page = open_page(f"{open_server.url}/new")
    reads = "import os\nprint('library', os.path.getsize('data/train.txt') > 100_000)"
    _fill(page, _packed(tmp_path, {"train.py": f"{reads}\n{textwrap.dedent(PROGRAM)}"}), samples=4000)
    page.check("[name=data][value=builtin]")
    assert page.locator("[name=builtin] option").count() == len([each for each in data_sets() if each.is_here])
    library = page.locator("[name=builtin] option[value='builtin:python-library']")
    assert re.search(r"own library.*\d+ modules \([\d.]+ MB\)", library.inner_text())
    _expect(page.get_by_text("There the program finds data.npz (arrays x and y)")).to_be_visible()
    page.select_option("[name=builtin]", "builtin:python-library")
    page.check("[name=confirm]")
    page.click("[data-start]")
    page.wait_for_url("**/jobs/small-*")
    _expect(_state(page)).to_have_text("succeeded")
    _expect(page.locator("[data-log]")).to_contain_text("library True")


def test_a_job_file_with_a_built_in_data_set_fills_the_step(
    open_server: Server, open_page: OpenPage, tmp_path: Path
) -> None:
    (tmp_path / "job.yaml").write_text("run: python x.py\nfile_mounts: {text: 'builtin:python-library'}\n")
    page = open_page(f"{open_server.url}/new")
    page.set_input_files("[data-jobfile]", tmp_path / "job.yaml")
    _expect(page.locator("[name=builtin]")).to_have_value("builtin:python-library")
    _expect(page.locator("[name=data_path]")).to_have_value("text")
    assert page.locator("[name=data][value=builtin]").is_checked()
    _expect(page.locator("[name=more]")).to_have_value("")


def test_a_folder_is_sent_without_what_no_program_needs(
    open_server: Server, open_page: OpenPage, tmp_path: Path
) -> None:
    folder = tmp_path / "program"
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "config").write_text("secret")
    (folder / ("deep" * 20) / ("er" * 30)).mkdir(parents=True)
    (folder / ("deep" * 20) / ("er" * 30) / "rows.csv").write_text("1,2\n")
    (folder / "main.py").write_text("print()")
    page = open_page(f"{open_server.url}/new")
    page.check("[name=source][value=folder]")
    page.set_input_files("[name=folder]", folder)
    _expect(page.locator("[data-uploaded]")).to_contain_text("program.tar: 2 files")
    _expect(page.locator("[name=run]")).to_have_value("python main.py")


def test_no_page_scrolls_sideways_on_a_phone(open_server: Server, open_page: OpenPage, trace: Path) -> None:
    job_id = _replay(open_server, trace)
    page = open_page(f"{open_server.url}/jobs", **PHONE)
    for path in (
        "/jobs",
        f"/jobs/{job_id}",
        "/new",
        "/models",
        f"/models/{job_id}",
        "/offers",
        "/history",
        "/team",
        "/no",
    ):
        page.goto(open_server.url + path)
        if path == f"/jobs/{job_id}":
            _expect(page.locator("[data-place=beliefs] figure")).not_to_have_count(0)
        wide, room = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        assert wide <= room, path


def test_the_list_of_jobs_is_live_and_filtered(open_server: Server, open_page: OpenPage, trace: Path) -> None:
    first = _replay(open_server, trace)
    page = open_page(f"{open_server.url}/jobs?q=toy")
    _expect(page.locator(f"a[href='/jobs/{first}']")).to_be_visible()
    second = _replay(open_server, trace)  # while the page is open
    _expect(page.locator(f"a[href='/jobs/{second}']")).to_be_visible()
    page.select_option("[name=state]", "failed")
    page.click("text=Filter")
    _expect(page.locator("main")).to_contain_text("No job is like that")


def test_what_people_write_is_never_markup(open_server: Server, open_page: OpenPage, trace: Path) -> None:
    evil = "<img src=x onerror=alert(1)>"
    job_id = _replay(open_server, trace, run=f"echo '{evil}'", envs={"A": evil})
    page = open_page(f"{open_server.url}/jobs/{job_id}")
    page.click("text=The job as it was submitted")
    _expect(page.locator(".facts")).to_contain_text(evil)
    assert page.locator("main img").count() == 0


def test_the_first_account_makes_another_which_signs_in(open_page: OpenPage, tmp_path: Path) -> None:
    with served(tmp_path / "home", "--accounts") as server:
        page = open_page(f"{server.url}/jobs")
        page.wait_for_url("**/setup")
        page.fill("[name=setup_token]", server.setup_token())
        page.fill("[name=name]", "admin")
        page.fill("[name=password]", PASSWORD)
        page.click("text=Make the account")
        page.wait_for_url("**/jobs")
        page.click("text=Team")
        form = page.locator("form[data-post='/api/v1/accounts']")
        form.locator("[name=name]").fill("ada")
        form.locator("[name=password]").fill(PASSWORD)
        form.locator("text=Add").click()
        _expect(page.locator("[data-account=ada] [name=role]")).to_have_value("user")
        page.click("text=Sign out")
        page.wait_for_url("**/login")
        page.goto(f"{server.url}/offers")
        page.fill("[name=name]", "ada")
        page.fill("[name=password]", "not this one")
        page.click("main button")
        _expect(page.locator("[data-error]")).to_contain_text("Name or password is wrong")
        page.fill("[name=password]", PASSWORD)
        page.click("main button")
        page.wait_for_url(f"{server.url}/offers")
        page.click("text=Team")
        page.fill("[name=label]", "laptop")
        page.click("text=Make a token")
        _expect(page.locator("[data-made] code")).to_contain_text("mlcd")
        _expect(page.locator("main")).not_to_contain_text("People")


def test_people_sign_in_with_their_identity_provider(open_page: OpenPage, tmp_path: Path) -> None:
    issuer = Issuer()
    options = ("--accounts", "--oidc-issuer", issuer.url)
    with served(tmp_path / "home", *options, MLCD_OIDC_CLIENT_SECRET="shared") as server:
        connection(server).post("/setup", {"name": "admin", "password": PASSWORD, "setup_token": server.setup_token()})
        page = open_page(f"{server.url}/offers")
        page.wait_for_url("**/login?next=/offers")
        page.click("text=Sign in with single sign-on")
        page.click("#no")
        _expect(page.locator("main")).to_contain_text("did not let you in")
        page.goto(f"{server.url}/offers")
        page.click("text=Sign in with single sign-on")
        page.click("#yes")
        page.wait_for_url(f"{server.url}/offers")
        _expect(page.locator(".me")).to_contain_text("ada")
        page.click("text=Team")
        _expect(page.locator("main")).not_to_contain_text("People")
    issuer.server.shutdown()


def _packed(folder: Path, files: dict[str, str]) -> Path:
    """Zipped with its folder."""
    file = folder / "small.zip"
    with zipfile.ZipFile(file, "w") as packed:
        for name, text in files.items():
            packed.writestr(f"small/{name}", textwrap.dedent(text))
    return file


def _fill(page: Page, archive: Path, samples: int) -> None:
    page.set_input_files("[name=archive]", archive)
    _expect(page.locator("[name=run]")).to_have_value("python train.py")
    _expect(page.locator("[name=workdir]")).to_have_value("small")
    page.select_option("[name=work_kind]", "samples")
    page.fill("[name=work_amount]", str(samples))
    page.check("[name=how][value=hand]")
    page.fill("[name=instance]", "local-1c")
    page.fill("[name=budget]", "5")
    page.click("#step-resources summary")
    page.fill("[name=more]", json.dumps(QUICK))


def _start(server: Server, folder: Path, samples: int, nodes: int = 1, program: str = PROGRAM) -> str:
    """A training that was accepted ahead."""
    (folder / "code").mkdir()
    (folder / "code" / "train.py").write_text(textwrap.dedent(program))
    client = remote(server)
    job = {"name": "long", "workdir": str(folder / "code"), "run": "python train.py", "search": "exhaustive"}
    where = {"resources": {"instance_type": "local-1c"}, "num_nodes": nodes}
    job_id = client.submit(client.load({**job, **QUICK, "work": {"samples": samples}, **where}))
    client.confirm(job_id)
    client.start(job_id)
    return job_id


def _replay(server: Server, trace: Path, **keys: Any) -> str:
    """A job of a recorded workload, planned."""
    client = remote(server)
    job = {
        "name": "toy",
        "run": "python train.py",
        "num_nodes": "1..4",
        "work": {"samples": 2_000_000},
        **keys,
    }
    options = {"trace": str(trace), "workload": "toy"}
    job_id = client.submit(client.load(job), cloud="replay", cloud_options=options)
    client.start(job_id)
    assert list(client.follow(job_id))[-1].record.state is JobState.PLANNED
    return job_id


def _moves(figure: Locator) -> None:
    """A chart is drawn, and then drawn anew."""
    line = figure.locator("> svg path[fill=none]").last
    before = line.get_attribute("d")
    assert before
    _expect(line).not_to_have_attribute("d", re.compile(f"^{re.escape(before)}$"))


def _state(page: Page) -> Locator:
    return page.locator("[data-state-badge]")


def _error(page: Page, key: str) -> Locator:
    return page.locator(f"[data-error-of~={key}]")


def _expect(locator: Locator) -> Any:
    from playwright.sync_api import expect

    return expect(locator)
